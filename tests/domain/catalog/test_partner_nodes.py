"""Partner nodes made of the catalog as it ships: every model has one, and what that is given makes a body."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from cases import for_each
from catalog_samples import shipped_catalog
from fairlead.domain.catalog.models import Catalog, Document, Leg, Model
from fairlead.domain.catalog.partner_bodies import LINK_WANTED, BadInputError, body_of
from fairlead.domain.catalog.partner_declarations import (
    EXTRA_BODY,
    NOT_SET,
    Found,
    Kind,
    MaskColour,
    NodeInput,
    PartnerNode,
    Spelling,
)
from fairlead.domain.catalog.partner_nodes import (
    class_name,
    family_of,
    partner_nodes,
    partner_nodes_document,
    read_partner_nodes,
)
from fairlead.domain.catalog.partner_results import links_of, places_of
from fairlead.domain.catalog.schema import InputSchema
from fairlead.domain.pointers import find_all, parse_pointer
from fairlead.operations.runs.requests import completed_body

_RECORDINGS: Final = Path(__file__).parents[2] / "providers" / "recordings"
_PROMPTS: Final = frozenset({"prompt", "Prompt", "text_prompt", "instruction", "input_task_id"})
"""Inputs of which a schema wants one among several, so that none of them is required by itself."""
_IDS: Final = {"voice_id": "JBFqnCBsd6RMkjVDRZzb", "style_id": "0198f000-0000-7000-8000-000000000001"}
"""Inputs that name something at the vendor, in the form its names have."""
_ONE_OF_SEVERAL: Final = {"anyOf", "oneOf"}
"""What a schema says where one of several fields is wanted, whichever the user links."""
_SPELLED: Final = {
    Spelling.LINK: "https://files.example/1.png",
    Spelling.DATA_URI: "data:image/png;base64,AAAAAAAA",
    Spelling.BASE64: "AAAAAAAAAAAA",
}


@cache
def catalog() -> Catalog:
    """The catalog as it ships."""
    return shipped_catalog()


@cache
def nodes() -> Sequence[PartnerNode]:
    """Its nodes, as engine hosts read them."""
    return read_partner_nodes(partner_nodes_document(catalog().models.values()))


def node(name: str) -> PartnerNode:
    """One of them."""
    return next(one for one in nodes() if one.name == name)


def variants() -> list[Any]:
    """Every node with every of its variants."""
    return [
        pytest.param(one, name, catalog().models[model_id], id=model_id)
        for one in nodes()
        for name, model_id in one.models.items()
    ]


def value_for(input_: NodeInput) -> Any:
    """Something that an input takes."""
    if input_.media is not None:
        spelled = _SPELLED[input_.media.spelling]
        return [spelled.replace("image/png", "video/mp4") if input_.type == "VIDEO" else spelled]
    if input_.type == "STRING" and not input_.options.get("default"):
        if input_.name in _IDS:
            return _IDS[input_.name]
        return "https://files.example/1.glb" if input_.name.endswith("Url") else "some words"
    return input_.options["default"]


def least(one: PartnerNode) -> dict[str, Any]:
    """What an editor sends of a node whose user has written a prompt and linked what must be there."""
    values = {
        input_.name: value_for(input_)
        if not input_.is_optional or input_.name in _PROMPTS
        else input_.options["default"]
        for input_ in one.inputs
        if not input_.is_optional or (input_.media is None and "default" in input_.options)
    }
    if one.name == "PartnerSynclabsSync3":  # needs a sound, and a clip or a picture
        values |= {"video": [_SPELLED[Spelling.LINK]], "audio": [_SPELLED[Spelling.LINK]]}
    return values


def model_of(document: Mapping[str, Any], model_id: str = "acme/one") -> Model:
    """A model of a schema."""
    leg = Leg("acme", {"run": "now"}, {}, ())
    return Model(model_id, (leg,), "no", Document(b"{}", '""'), InputSchema(document))


def only(document: Mapping[str, Any]) -> PartnerNode:
    """The node of a schema."""
    return partner_nodes([model_of(document)])[0]


@pytest.mark.req("C-11")
def test_every_model_of_the_catalog_is_run_by_exactly_one_node() -> None:
    """Nothing is missing from the editor, and nothing is there twice."""
    assert sorted(model_id for one in nodes() for model_id in one.models.values()) == sorted(catalog().models)
    assert len({one.name for one in nodes()}) == len(nodes())
    assert len({one.title for one in nodes()}) == len(nodes())


@for_each(("one", "variant", "model"), variants())
@pytest.mark.req("C-11")
def test_default_widgets_make_a_body_of_the_model(one: PartnerNode, variant: str, model: Model) -> None:
    """When the prompt is written and required sockets are linked, at most one of several fields is missing."""
    body = body_of(one, variant, least(one))
    assert model.input_schema is not None
    wrong = {found.type for found in model.input_schema.violations(completed_body(model, body))}
    assert wrong <= _ONE_OF_SEVERAL
    assert model.input_schema.unknown_fields(body) == ()


def extremes(input_: NodeInput) -> list[Any]:
    """What a widget can be set to at the most: its bounds, or every one of its choices."""
    if input_.type == "COMBO":
        return list(input_.options["options"])
    if input_.type in ("INT", "FLOAT"):
        return [input_.options["min"], input_.options["max"]]
    return [True, False] if input_.type == "BOOLEAN" else []


@for_each(("one", "variant", "model"), [param for param in variants() if len(param.values[0].models) == 1])
def test_every_widget_value_is_taken_by_the_model(one: PartnerNode, variant: str, model: Model) -> None:
    """Bounds and choices are the schema's own; what the schema says of fields together is for the router to refuse."""
    assert model.input_schema is not None
    for input_ in one.inputs:
        for value in extremes(input_):
            body = completed_body(model, body_of(one, variant, {**least(one), input_.name: value}))
            wrong = {found.loc[1:] for found in model.input_schema.violations(body)}
            assert parse_pointer(input_.at) not in {tuple(map(str, loc)) for loc in wrong}, (input_.name, value)


@for_each(("one", "variant", "model"), variants())
def test_each_socket_makes_a_body_of_the_model_or_misses_only_a_companion_field(
    one: PartnerNode, variant: str, model: Model
) -> None:
    """Media go where the schema has them; all it may miss is another of them, or a field they need."""
    assert model.input_schema is not None
    for input_ in one.inputs:
        is_taken = input_.models is None or variant in input_.models
        if input_.media is None or not is_taken or one.name == "PartnerSynclabsSync3":
            continue
        body = completed_body(model, body_of(one, variant, {**least(one), input_.name: value_for(input_)}))
        found = {one.type for one in model.input_schema.violations(body)}
        assert found <= {"missing", "too_short", *_ONE_OF_SEVERAL}


@for_each("model", list(catalog().models.values()), ids=lambda model: model.id)
@pytest.mark.req("C-11")
def test_answers_of_every_model_have_a_result_where_its_node_looks(model: Model) -> None:
    """The answers are those that vendors document, not those that the schemas describe."""
    places = places_of(model)
    if not places or places[0].found is Found.WHOLE:
        return  # the whole answer is the result: a sound, or JSON
    paths = (_RECORDINGS / model.native.provider).glob("completed*.json")
    answers = [json.loads(path.read_text())["body"] for path in paths]
    assert any([*find_all(answer, parse_pointer(place.at))] for answer in answers for place in places)


def test_document_of_partner_nodes_does_not_depend_on_model_order() -> None:
    """Hosts are told again only when something has changed."""
    models = list(catalog().models.values())
    assert partner_nodes_document(models) == partner_nodes_document(reversed(models))


def test_classes_are_named_after_provider_and_family_alone() -> None:
    """A model that is added to a family renames nothing in saved workflows."""
    assert all(re.fullmatch(r"Partner[A-Za-z0-9]+", one.name) for one in nodes())
    assert class_name("bfl", "flux-2") == "PartnerBflFlux2"
    assert class_name("kling", "kling-v3") == "PartnerKlingV3"
    assert class_name("recraft", "recraftv4") == "PartnerRecraftv4"
    alone = [model for model in catalog().models.values() if model.id == "bfl/flux-2-pro"]
    assert [one.name for one in partner_nodes(alone)] == ["PartnerBflFlux2"]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("flux-2-max", "flux-2"),
        ("veo-3.1-fast-generate-001", "veo-3"),
        ("seedance-1-0-pro-fast-251015", "seedance-1"),
        ("claude-haiku-4-5-20251001", "claude-4"),
        ("gpt-4.1-nano", "gpt-4"),
        ("gen4_image", "gen4-image"),
        ("flux-pro-1.1-ultra", "flux-1-ultra"),
        ("pro", "pro"),
    ],
)
def test_sizes_speeds_dates_and_minor_versions_do_not_make_a_family(name: str, family: str) -> None:
    """What is left is what people call the model."""
    assert family_of(name) == family


def test_variants_are_a_choice_and_say_which_of_them_takes_an_input() -> None:
    """The inputs of a family are those of all its variants."""
    one = node("PartnerByteplusSeedance1")
    choice = one.inputs[0]
    assert (choice.name, choice.type, choice.options["options"]) == ("model", "COMBO", list(one.models))
    sound = next(input_ for input_ in one.inputs if input_.name == "generate_audio")
    assert sound.models == ["seedance-1-5-pro-251215"]
    assert "Only for seedance-1-5-pro-251215." in sound.options["tooltip"]
    for_older = body_of(one, "seedance-1-0-pro-250528", {"prompt": "x", "generate_audio": False})
    assert "generate_audio" not in for_older
    assert body_of(one, "seedance-1-5-pro-251215", {"prompt": "x", "generate_audio": False})["generate_audio"] is False


def test_models_whose_inputs_differ_in_kind_are_nodes_of_their_own() -> None:
    """One widget cannot stand for a number and for a text."""
    number = model_of({"type": "object", "properties": {"size": {"type": "integer"}}}, "acme/one-pro")
    text = model_of({"type": "object", "properties": {"size": {"type": "string"}}}, "acme/one-max")
    assert [list(one.models) for one in partner_nodes([number, text])] == [["one-max"], ["one-pro"]]


def test_family_has_the_wider_bounds_and_no_ambiguous_default() -> None:
    """Which variant takes what is the model's schema to say."""
    small = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 4, "default": 1}}}
    large = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9, "default": 2}}}
    one = partner_nodes([model_of(small, "acme/one-mini"), model_of(large, "acme/one-pro")])[0]
    widget = one.inputs[1]
    assert (widget.options["min"], widget.options["max"], widget.options["default"]) == (0, 9, 1)
    assert body_of(one, "one-pro", {"n": 1}) == {"n": 1}


def test_default_of_the_model_is_left_out_of_the_body() -> None:
    """An editor sends all its widgets: without defaults, fields that exclude each other do not meet in a body."""
    one = node("PartnerRecraftv3")
    assert body_of(one, "recraftv3", {"prompt": "x", "style": "realistic_image", "style_id": "", "n": 1}) == {
        "prompt": "x"
    }
    assert body_of(one, "recraftv3", {"prompt": "x", "style": "icon"}) == {"prompt": "x", "style": "icon"}


def test_true_is_not_taken_for_the_number_one() -> None:
    """A default of 1 does not swallow true, and true is sent as such."""
    one = only({"type": "object", "properties": {"n": {"type": "integer", "default": 1}, "b": {"type": "boolean"}}})
    assert body_of(one, "one", {"n": 1, "b": True}) == {"b": True}
    assert body_of(one, "one", {"n": 2, "b": 0}) == {"n": 2, "b": False}


def test_choice_without_a_default_can_be_left_unmade() -> None:
    """An editor always sends a choice: `not set` is the one that is none."""
    one = node("PartnerIdeogramV3")
    choice = next(input_ for input_ in one.inputs if input_.name == "resolution")
    assert choice.options["options"][0] == choice.options["default"] == NOT_SET
    assert body_of(one, "ideogram-v3", {"prompt": "x", "resolution": NOT_SET}) == {"prompt": "x"}


def test_number_without_a_default_is_a_socket_that_may_stay_empty() -> None:
    """There is no number that means none."""
    widgets = {input_.name: input_ for input_ in node("PartnerOpenaiGpt5").inputs}
    assert widgets["max_completion_tokens"].options["forceInput"] is True
    assert "default" not in widgets["max_completion_tokens"].options
    assert widgets["seed"].options["control_after_generate"] is True


@pytest.mark.parametrize(
    ("name", "input_name", "type_", "spelling", "most"),
    [
        ("PartnerBflFlux2", "input_image", "IMAGE", Spelling.DATA_URI, 1),
        ("PartnerBflFlux1Fill", "mask", "MASK", Spelling.BASE64, 1),
        ("PartnerOpenaiGptImage1", "image", "IMAGE", Spelling.DATA_URI, 16),
        ("PartnerLumaPhoton1", "image_ref", "IMAGE", Spelling.LINK, 4),
        ("PartnerLumaRay2", "frame0", "IMAGE", Spelling.LINK, 1),
        ("PartnerKlingImageO1", "image_list", "IMAGE", Spelling.BASE64, 10),
        ("PartnerSynclabsSync3", "video", "VIDEO", Spelling.LINK, 1),
        ("PartnerWan2I2v", "audio_url", "AUDIO", Spelling.LINK, 1),
        ("PartnerBeebleSwitchx", "source_uri", "IMAGE,VIDEO", Spelling.DATA_URI, 1),
        ("PartnerVeo3", "image", "IMAGE", Spelling.BASE64, 1),
        ("PartnerQwenImage3", "images", "IMAGE", Spelling.DATA_URI, 3),
    ],
)
def test_media_are_sockets_spelled_as_the_partner_takes_them(
    name: str, input_name: str, type_: str, spelling: Spelling, most: int
) -> None:
    """What the schema says of a text decides."""
    found = next(input_ for input_ in node(name).inputs if input_.name == input_name)
    assert found.media is not None
    assert (found.type, found.media.spelling, found.media.most) == (type_, spelling, most)


@pytest.mark.parametrize(
    ("name", "colour"),
    [
        ("PartnerOpenaiGptImage1", MaskColour.ALPHA),
        ("PartnerIdeogramV3", MaskColour.BLACK),
        ("PartnerBriaImageEditErase", MaskColour.WHITE),
    ],
)
def test_masks_are_shown_as_the_partner_reads_them(name: str, colour: MaskColour) -> None:
    """White, black or transparent is what is meant."""
    found = next(input_ for input_ in node(name).inputs if input_.name == "mask")
    assert found.media is not None
    assert found.media.mask is colour


def test_messages_have_the_pictures_before_the_prompt_and_the_system_in_front() -> None:
    """The order that partners ask for, however the inputs stand in the node."""
    values = {"prompt": "What is it?", "images": ["data:image/png;base64,AA=="], "system": "Be brief."}
    assert body_of(node("PartnerOpenaiGpt5"), "gpt-5", values)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
                {"type": "text", "text": "What is it?"},
            ],
        },
    ]


def test_media_with_roles_stand_in_the_list_of_the_prompt() -> None:
    """Media with roles are items of the content list, as video models take frames."""
    values = {"prompt": "It moves.", "first_frame": ["data:image/png;base64,AA=="]}
    assert body_of(node("PartnerMinimaxH3"), "minimax-h3", values)["content"] == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}, "role": "first_frame"},
        {"type": "text", "text": "It moves."},
    ]


def test_extra_body_is_merged_into_the_body() -> None:
    """What a node cannot show can still be said."""
    extra = '{"parameters": {"resolution": "1080p"}, "labels": {"a": "b"}}'
    body = body_of(node("PartnerVeo3"), "veo-3.1-generate-001", {"prompt": "x", "sampleCount": 2, EXTRA_BODY: extra})
    assert body["parameters"] == {"sampleCount": 2, "resolution": "1080p"}
    assert body["labels"] == {"a": "b"}
    assert body["instances"] == [{"prompt": "x"}]


@pytest.mark.parametrize("extra", ["{", "[1]", "nonsense", '{"a": NaN}', '{"a": 1, "a": 2}', "{" * 5000])
def test_extra_body_that_is_no_json_object_is_refused_with_a_reason(extra: str) -> None:
    """The node says so before anything is run or held."""
    with pytest.raises(BadInputError, match="extra_body must be a JSON object"):
        body_of(node("PartnerBflFlux2"), "flux-2-pro", {"prompt": "x", EXTRA_BODY: extra})


def test_too_many_pictures_are_refused_with_their_number() -> None:
    """The user has linked all pictures, so none is dropped silently."""
    with pytest.raises(BadInputError, match=r"images: 4 were given; the model takes at most 3\."):
        body_of(node("PartnerQwenImage3"), "qwen-image-3.0", {"prompt": "x", "images": ["data:,"] * 4})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "many", [1], None.__class__])
def test_value_that_is_no_number_is_refused_with_its_name(value: Any) -> None:
    """A link may bring anything; JSON has no word for some of it."""
    with pytest.raises(BadInputError, match="cfg_scale"):
        body_of(node("PartnerKlingV3"), "kling-v3", {"prompt": "x", "cfg_scale": value})


def test_callbacks_streams_and_model_names_are_not_inputs() -> None:
    """They would be of no use in a node, or do harm."""
    shown = {input_.at for one in nodes() for input_ in one.inputs}
    assert not [at for at in shown if re.search(r"callback|webhook|/stream$|model_name|idempotency", at)]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"type": "object", "properties": {"a": True, "b": {"enum": [None, {}]}, "c": {"type": ["null"]}}},
        {"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}]}, "b": {"type": "array"}}},
        {"type": "object", "properties": {"a b": {"type": "string"}, "a_b": {"type": "string"}, "model": {}}},
        {"type": "object", "properties": {"context": {"type": "string"}, "extra_body": {"type": "string"}}},
    ],
)
def test_any_schema_makes_a_node_with_distinct_input_names(document: Any) -> None:
    """Operators write schemas, too; what cannot be shown is left to the extra body."""
    names = [input_.name for input_ in only(document).inputs]
    assert len(set(names)) == len(names)
    assert "context" not in names
    assert names[-1] == EXTRA_BODY


def test_model_without_a_schema_takes_its_whole_body_as_extra() -> None:
    """Its node is of use to who knows the partner."""
    model = Model("acme/bare", (Leg("acme", {"run": "now"}, {}, ()),), "no", Document(b"{}", '""'))
    one = partner_nodes([model])[0]
    assert [input_.name for input_ in one.inputs] == [EXTRA_BODY]
    assert body_of(one, "bare", {EXTRA_BODY: '{"a": 1}'}) == {"a": 1}


def test_only_web_links_of_results_are_fetched_and_each_once() -> None:
    """A bucket of the partner's and a data URI are not fetched, and each link is fetched once."""
    places = places_of(catalog().models["krea/krea-2"])
    links = ["https://a.example/1", "gs://b/1", "data:image/png;base64,AA==", "https://a.example/1", 7]
    assert links_of(places, {"result": {"urls": links}}) == ("https://a.example/1",)


def test_clip_with_its_last_frame_is_two_outputs() -> None:
    """Which a user can link separately."""
    assert [output.kind for output in node("PartnerByteplusSeedance1").outputs] == [Kind.VIDEO, Kind.IMAGE]
    assert node("PartnerByteplusSeedance1").category == "api node/video/byteplus"


def test_marker_of_a_wanted_link_cannot_be_taken_for_a_url() -> None:
    """The mark is not a scheme that a partner would follow."""
    assert not LINK_WANTED.startswith(("http", "data"))
