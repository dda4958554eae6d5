"""The types of inputs and outputs that packs declare in the schema form (V3): `io.Int.Input("steps", min=1)`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, Final

_TOLD_AS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "display_mode": "display",
        "force_input": "forceInput",
        "raw_link": "rawLink",
        "dynamic_prompts": "dynamicPrompts",
        "widget_type": "widgetType",
    }
)
"""Options that editors know by other names than packs."""


class Input:
    """An input; `options` are those of its type, such as `default`, `min` and `tooltip`."""

    io_type: ClassVar[str] = "*"

    def __init__(
        self,
        id: str,  # noqa: A002 -- packs call it so
        display_name: str | None = None,
        optional: bool = False,  # noqa: FBT001, FBT002 -- packs may give it by place
        tooltip: str | None = None,
        lazy: bool | None = None,  # noqa: FBT001 -- the same
        **options: Any,
    ) -> None:
        self.id = id
        self.display_name = display_name
        self.optional = optional
        self.tooltip = tooltip
        self.lazy = lazy
        self._options = {"display_name": display_name, "tooltip": tooltip, "lazy": lazy, **options}

    def get_io_type(self) -> str:
        """The type as editors know it."""
        return str(self.io_type)

    def as_dict(self) -> dict[str, object]:
        """The options under the names of editors; empty ones are left out."""
        extra = self._options.get("extra_dict") or {}
        options = {name: value for name, value in self._options.items() if value is not None and name != "extra_dict"}
        upload = options.pop("upload", None)
        if upload is not None:
            options[str(_value(upload))] = True
        return {**{_TOLD_AS.get(name, name): _value(value) for name, value in options.items()}, **extra}

    def spec(self) -> tuple[str, dict[str, object]]:
        """The declaration as editors read it."""
        return (self.get_io_type(), self.as_dict())


class WidgetInput(Input):
    """An input that editors can fill in."""


class Output:
    """An output."""

    io_type: ClassVar[str] = "*"

    def __init__(
        self,
        id: str | None = None,  # noqa: A002 -- packs call it so
        display_name: str | None = None,
        tooltip: str | None = None,
        is_output_list: bool = False,  # noqa: FBT001, FBT002 -- packs may give it by place
    ) -> None:
        self.id = id
        self.display_name = display_name
        self.tooltip = tooltip
        self.is_output_list = is_output_list

    def get_io_type(self) -> str:
        """The type as editors know it."""
        return str(self.io_type)

    @property
    def template_id(self) -> str | None:
        """The template whose type the output has, if it has one of its inputs."""
        return None


class ComboInput(WidgetInput):
    """One of some choices, or several."""

    is_multiple: ClassVar[bool] = False

    def __init__(self, id: str, options: Any = None, *args: Any, **more: Any) -> None:  # noqa: A002 -- packs call it so
        is_enum = isinstance(options, type) and issubclass(options, Enum)
        self.options = [_value(choice) for choice in options] if is_enum or options is not None else None
        super().__init__(id, *args, **more)

    def as_dict(self) -> dict[str, object]:
        """The choices are among the options."""
        options = {} if self.options is None else {"options": self.options}
        return {**super().as_dict(), "multiselect": self.is_multiple, **options}


class MultiComboInput(ComboInput):
    """Several of some choices."""

    is_multiple = True


class MultiTypeInput(Input):
    """A value of one of several types. The first argument may be an input that shows how it is filled in."""

    def __init__(self, id: str | Input, types: Sequence[Any], *args: Any, **options: Any) -> None:  # noqa: A002 -- as above
        shown = id if isinstance(id, Input) else None
        names = [shown.get_io_type()] if shown else []
        names += [str(type_ if isinstance(type_, str) else type_.io_type) for type_ in types]
        self._names = ",".join(dict.fromkeys(name.strip() for some in names for name in some.split(",")))
        self._shown = shown
        super().__init__(shown.id if shown else str(id), *args, **options)
        self.optional = self.optional or bool(shown and shown.optional)

    def get_io_type(self) -> str:
        """All the types, with commas between them."""
        return self._names

    def as_dict(self) -> dict[str, object]:
        """With the options of the input that shows how it is filled in."""
        if self._shown is None:
            return super().as_dict()
        return {**self._shown.as_dict(), "widgetType": self._shown.get_io_type(), **super().as_dict()}


class MatchTemplate:
    """Inputs and outputs of one template have one type, which is any of those allowed."""

    def __init__(self, template_id: str, allowed_types: Any = None) -> None:
        self.template_id = template_id
        allowed = allowed_types if isinstance(allowed_types, Iterable) else [allowed_types]
        self.allowed_types = [type_ for type_ in allowed if type_ is not None]

    def as_dict(self) -> dict[str, str]:
        """The template as editors read it."""
        names = dict.fromkeys(str(type_.io_type) for type_ in self.allowed_types) or ["*"]
        return {"template_id": self.template_id, "allowed_types": ",".join(names)}


class MatchTypeInput(Input):
    """A value whose type is that of its template."""

    def __init__(self, id: str, template: MatchTemplate, *args: Any, **options: Any) -> None:  # noqa: A002 -- as above
        self.template = template
        super().__init__(id, *args, **options)

    def as_dict(self) -> dict[str, object]:
        """With the template."""
        return {**super().as_dict(), "template": self.template.as_dict()}


class MatchTypeOutput(Output):
    """A value whose type is that of its template."""

    def __init__(self, template: MatchTemplate, *args: Any, **options: Any) -> None:
        self.template = template
        super().__init__(*args, **options)

    @property
    def template_id(self) -> str | None:
        """The template's id."""
        return self.template.template_id


class AutogrowTemplate:
    """An input that is repeated as more are connected, numbered or with given names."""

    def __init__(self, input: Input, prefix: str | None = None, **bounds: object) -> None:  # noqa: A002 -- as above
        self.input = input
        self._told = {"prefix": prefix, **bounds}

    def as_dict(self) -> dict[str, object]:
        """The template as editors read it."""
        given = {name: value for name, value in self._told.items() if value is not None}
        return {"input": sections_of([self.input]), **given}


class TemplatePrefix(AutogrowTemplate):
    """Inputs that are numbered: a prefix and a number from 0."""

    def __init__(self, input: Input, prefix: str, min: int = 1, max: int = 10) -> None:  # noqa: A002 -- as above
        super().__init__(input, prefix, min=min, max=max)


class TemplateNames(AutogrowTemplate):
    """Inputs that have names."""

    def __init__(self, input: Input, names: Sequence[str], min: int = 1) -> None:  # noqa: A002 -- as above
        super().__init__(input, names=list(names), min=min)


class AutogrowInput(Input):
    """A dict of inputs of one template."""

    def __init__(self, id: str, template: AutogrowTemplate, *args: Any, **options: Any) -> None:  # noqa: A002 -- as above
        self.template = template
        super().__init__(id, *args, **options)

    def as_dict(self) -> dict[str, object]:
        """With the template."""
        return {**super().as_dict(), "template": self.template.as_dict()}


@dataclass
class DynamicOption:
    """A choice, and the inputs there are when it is taken."""

    key: str
    inputs: Sequence[Input]

    def as_dict(self) -> dict[str, object]:
        """The choice as editors read it."""
        return {"key": self.key, "inputs": sections_of(self.inputs)}


class DynamicComboInput(Input):
    """A dict of the inputs that belong to the choice that is taken."""

    def __init__(self, id: str, options: Sequence[DynamicOption], *args: Any, **more: Any) -> None:  # noqa: A002 -- as above
        self.options = options
        super().__init__(id, *args, **more)

    def as_dict(self) -> dict[str, object]:
        """With the choices."""
        return {**super().as_dict(), "options": [option.as_dict() for option in self.options]}


def sections_of(inputs: Iterable[Input]) -> dict[str, dict[str, object]]:
    """Inputs in the form for editors, grouped into required and optional."""
    sections: dict[str, dict[str, object]] = {"required": {}, "optional": {}}
    for input_ in inputs:
        sections["optional" if input_.optional else "required"][input_.id] = list(input_.spec())
    return {section: found for section, found in sections.items() if found or section == "required"}


def _value(option: object) -> object:
    """An option's value for editors: of an enumeration's member, or of an object with `as_dict`."""
    if isinstance(option, Enum):
        return option.value
    return option.as_dict() if hasattr(option, "as_dict") else option
