"""Partner nodes: the nodes for the models of the catalog, one for each family (C-11).

A family is made of models of one provider that are variants of each other: their names differ only in words for a size,
a speed or a date, and their inputs only in bounds and optional fields. Its node has a choice of the variant. The name
of its class is made of its own models' names, never of what else is in the catalog, so that saved workflows go on
working.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from fairlead.domain.catalog.models import Model
from fairlead.domain.catalog.partner_declarations import (
    MODEL_INPUT,
    Kind,
    NodeInput,
    PartnerNode,
    Place,
)
from fairlead.domain.catalog.partner_inputs import inputs_of
from fairlead.domain.catalog.partner_results import main_kind, outputs_of, places_of

_VARIANTS: Final = frozenset(
    ["pro", "max", "fast", "turbo", "flash", "lite", "mini", "nano", "large", "medium", "small", "std", "standard",
     "4k", "preview", "generate", "haiku", "sonnet", "opus"]
)  # fmt: skip
"""Words in the names of models that distinguish variants of one family."""
_REVISION: Final = re.compile(r"\d{6,8}|0\d\d")
_MAJOR: Final = re.compile(r"[a-z]*\d+", re.IGNORECASE)
_MINOR: Final = re.compile(r"(?<=\d)\.\d+")
_SEPARATORS: Final = re.compile(r"[-_ ]+")
_MEDIA: Final[Mapping[Kind, str]] = {
    Kind.IMAGE: "image",
    Kind.VIDEO: "video",
    Kind.AUDIO: "audio",
    Kind.STRING: "text",
    Kind.FILE: "3d",
}
_BOUNDS: Final = (("min", min), ("max", max))


class _Shown(msgspec.Struct, frozen=True):
    """A group of models that becomes a family; it begins with one model."""

    models: Sequence[Model]
    inputs: Sequence[NodeInput]
    start: Mapping[str, object]
    places: Sequence[Place]

    @property
    def names(self) -> list[str]:
        return [model.name for model in self.models]


def partner_nodes(models: Iterable[Model]) -> Sequence[PartnerNode]:
    """The nodes for some models, by name. Pass only models that may be run: a node does not know of retirements."""
    gathered: dict[tuple[str, str], list[_Shown]] = {}
    for model in sorted(models, key=lambda one: one.id):
        families = gathered.setdefault((model.provider, family_of(model.name)), [])
        _join(families, _show_model(model))
    nodes: dict[str, PartnerNode] = {}
    for (provider, family), groups in gathered.items():
        largest = max(groups, key=lambda group: len(group.models))
        for group in groups:
            name = class_name(provider, family if group is largest else group.models[0].name)
            name = name if name not in nodes else class_name(provider, group.models[0].name)
            nodes.setdefault(name, _node(name, provider, group))
    return _with_unique_titles([nodes[name] for name in sorted(nodes)])


def partner_nodes_document(models: Iterable[Model]) -> bytes:
    """The nodes for some models as a document for engine hosts; the same models make the same bytes."""
    return msgspec.json.encode(partner_nodes(models), order="sorted")


def read_partner_nodes(document: bytes) -> Sequence[PartnerNode]:
    """The nodes of such a document; msgspec.DecodeError for a malformed one."""
    return msgspec.json.decode(document, type=list[PartnerNode])


def family_of(name: str) -> str:
    """The name of a model without the words that distinguish its variants."""
    kept: list[str] = []
    for word in _SEPARATORS.split(name):
        plain = _MINOR.sub("", word)
        is_minor = word.isdigit() and bool(kept) and _MAJOR.fullmatch(kept[-1]) is not None
        if word.lower() not in _VARIANTS and not _REVISION.fullmatch(word) and not is_minor:
            kept.append(plain)
    return "-".join(kept) or name


def class_name(provider: str, family: str) -> str:
    """The name of a class of nodes, such as `PartnerBflFlux2`; the provider is not repeated."""
    words = _SEPARATORS.split(family)
    if not family.lower().startswith(provider.lower()):
        words = [*_SEPARATORS.split(provider), *words]
    return "Partner" + "".join(part[:1].upper() + part[1:] for word in words for part in word.split("."))


def _show_model(model: Model) -> _Shown:
    opening = inputs_of(model.input_schema.document if model.input_schema is not None else None)
    return _Shown([model], tuple(opening.inputs), opening.start, places_of(model))


def _join(groups: list[_Shown], one: _Shown) -> None:
    """Put a model into the first group it is a variant of, or into one of its own."""
    for number, group in enumerate(groups):
        merged = _merge_model(group, one)
        if merged is not None:
            groups[number] = merged
            return
    groups.append(one)


def _merge_model(group: _Shown, one: _Shown) -> _Shown | None:
    """A group with one more model; None where their inputs or results differ too much."""
    known = {input_.name: input_ for input_ in group.inputs}
    added = {input_.name: input_ for input_ in one.inputs}
    needed = [{name for name, input_ in side.items() if not input_.is_optional} for side in (known, added)]
    if group.start != one.start or tuple(group.places) != tuple(one.places) or needed[0] != needed[1]:
        return None
    if any(not _fit(known[name], added[name]) for name in known.keys() & added.keys()):
        return None
    merged = [_blend(input_, added[input_.name], one.names) if input_.name in added else _only(input_, group.names)
              for input_ in group.inputs]  # fmt: skip
    extra, merged = merged[-1], merged[:-1]
    merged += [_only(input_, one.names) for name, input_ in added.items() if name not in known]
    return _Shown([*group.models, *one.models], (*merged, extra), group.start, group.places)


def _fit(first: NodeInput, second: NodeInput) -> bool:
    """Whether two inputs of one name differ only in bounds, choices and descriptions."""
    media = [None if one.media is None else (one.media.spelling, one.media.mask) for one in (first, second)]
    shape = [(one.type, one.at, one.template, one.value_at, "forceInput" in one.options) for one in (first, second)]
    return media[0] == media[1] and shape[0] == shape[1] and _shares_default(first, second)


def _shares_default(first: NodeInput, second: NodeInput) -> bool:
    """Whether the first choice of each of two inputs is also a choice of the other."""
    sides = [(one.options.get("default"), one.options.get("options")) for one in (first, second)]
    return all(
        choices is None or default in choices for (default, _), (_, choices) in zip(sides, sides[::-1], strict=True)
    )


def _only(input_: NodeInput, names: Sequence[str]) -> NodeInput:
    """An input that not all variants take."""
    return input_ if input_.models is not None else msgspec.structs.replace(input_, models=tuple(names))


def _blend(first: NodeInput, second: NodeInput, names: Sequence[str]) -> NodeInput:
    """One input for two: the wider bounds, all choices, and a default that is left out only where all mean the same."""
    options = dict(first.options)
    for key, widest in _BOUNDS:
        if key in options and key in second.options:
            options[key] = widest(options[key], second.options[key])
    if "options" in options:
        options["options"] = list(dict.fromkeys([*options["options"], *second.options.get("options", ())]))
    media = first.media
    if media is not None and second.media is not None:
        most = max(media.most, second.media.most)
        longest = [length for length in (media.longest, second.media.longest) if length is not None]
        media = msgspec.structs.replace(media, most=most, longest=min(longest, default=None))
    return msgspec.structs.replace(
        first,
        options=options,
        media=media,
        omitted=tuple(value for value in first.omitted if value in second.omitted),
        models=None if first.models is None else (*first.models, *names),
    )


def _node(name: str, provider: str, group: _Shown) -> PartnerNode:
    variants = {model.name: model.id for model in group.models}
    inputs = list(group.inputs)
    if len(variants) > 1:
        options = {"options": list(variants), "default": next(iter(variants)), "tooltip": "Which variant is run."}
        inputs = [NodeInput(MODEL_INPUT, "COMBO", "", options), *inputs]
    return PartnerNode(
        name=name,
        title=_title(group.models, provider),
        category=f"api node/{_MEDIA[main_kind(group.places)]}/{provider}",
        models=variants,
        inputs=[_with_variants(input_) for input_ in inputs],
        outputs=outputs_of(group.places),
        places=tuple(group.places),
        start=group.start,
        description=f"{_summary(group.models[0])}. Runs {', '.join(variants.values())}; the caller's key pays for it.",
    )


def _with_variants(input_: NodeInput) -> NodeInput:
    """An input that says which variants take it, where not all do."""
    if input_.models is None:
        return input_
    words = f"{input_.options.get('tooltip', '')} Only for {', '.join(input_.models)}.".strip()
    return msgspec.structs.replace(input_, options={**input_.options, "tooltip": words})


def _title(models: Sequence[Model], provider: str) -> str:
    """The title of a family: that of its only model, or what the titles of its variants have in common.

    Where that is only a brand, the words of the family's name are added.
    """
    titles = [_summary(model).partition(":")[0].split() for model in models]
    words = titles[0] if len(titles) == 1 else list(_common(titles))
    if not any(char.isdigit() for char in " ".join(words)) and len(titles) > 1:
        known = " ".join(words).lower()
        family = _SEPARATORS.split(family_of(models[0].name))
        words += [word.capitalize() for word in family if word.lower() not in known]
    return f"{' '.join(words)} ({provider})"


def _with_unique_titles(nodes: Sequence[PartnerNode]) -> list[PartnerNode]:
    """The nodes; where several would have the same title, each has the catalog's full name."""
    titles = Counter(node.title for node in nodes)
    return [
        node if titles[node.title] == 1 else msgspec.structs.replace(node, title=node.description.partition(". ")[0])
        for node in nodes
    ]


def _common(titles: Sequence[Sequence[str]]) -> Iterator[str]:
    for words in zip(*titles, strict=False):
        if len(set(words)) > 1:
            return
        yield words[0]


def _summary(model: Model) -> str:
    """The catalog's name of a model."""
    document = msgspec.json.decode(model.openapi.content)
    information = document.get("info") if isinstance(document, dict) else None
    summary = information.get("summary") if isinstance(information, dict) else None
    return str(summary or model.name)
