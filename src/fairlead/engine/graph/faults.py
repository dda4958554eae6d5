"""What can be wrong with a graph before it is executed, in the shapes editors know (engine-wire, 2.1)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

_SHOWN_CHOICES_MAX: Final = 20
_SHOWN_LENGTH_MAX: Final = 1_000


class Fault(msgspec.Struct, frozen=True):
    """One fault, with a stable type, a message, details and facts."""

    type: str
    message: str
    details: str = ""
    extra_info: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """The fault as editors read it."""
        return {
            "type": self.type,
            "message": self.message,
            "details": self.details,
            "extra_info": dict(self.extra_info),
        }


class NodeFaults(msgspec.Struct, frozen=True):
    """What is wrong with one node, and the outputs that cannot be made because of it."""

    class_type: str
    faults: Sequence[Fault]
    dependent_outputs: Sequence[str]

    def as_dict(self) -> dict[str, object]:
        """The faults of the node as editors read them."""
        return {
            "errors": [fault.as_dict() for fault in self.faults],
            "dependent_outputs": list(self.dependent_outputs),
            "class_type": self.class_type,
        }


class At(msgspec.Struct, frozen=True):
    """An input of a node, as its faults name it; `config` is how it is declared, for editors."""

    path: str
    config: list[object]

    def info(self, **more: object) -> dict[str, object]:
        """The facts every fault of an input has, and more."""
        return {"input_name": self.path, "input_config": self.config, **more}


def missing_node_type(node: str, class_type: str | None, title: str) -> Fault:
    """The graph names an unknown class, or none."""
    info = {"node_id": node, "class_type": class_type, "node_title": title}
    if class_type is None:
        return Fault("missing_node_type", f"Node {title!r} names no class.", f"Node ID '#{node}'", info)
    words = f"Node {title!r} is of the class {class_type!r}, which is not installed."
    return Fault("missing_node_type", words, f"Node ID '#{node}'", info)


def no_outputs() -> Fault:
    """The graph, or the part of it that was asked for, has no output."""
    return Fault("prompt_no_outputs", "Prompt has no outputs")


def outputs_failed(faults: Sequence[Fault]) -> Fault:
    """No output can be made; the details are of the output nodes' own faults."""
    details = "\n".join(f"{fault.message}: {fault.details}" for fault in faults)
    return Fault("prompt_outputs_failed_validation", "Prompt outputs failed validation", details)


def required_input_missing(path: str) -> Fault:
    """A required input has neither a constant nor a link."""
    return Fault("required_input_missing", "Required input is missing", path, {"input_name": path})


def bad_linked_input(at: At, value: list[object]) -> Fault:
    """A list that is not a link is in place of one."""
    words = "Bad linked input, must be a length-2 list of [node_id, slot_index]"
    return Fault("bad_linked_input", words, at.path, at.info(received_value=value))


def return_type_mismatch(at: At, received: object, link: Sequence[object]) -> Fault:
    """A link brings another type than the input takes."""
    details = f"{at.path}, received_type({received}) mismatch input_type({at.config[0]})"
    info = at.info(received_type=received, linked_node=list(link))
    return Fault("return_type_mismatch", "Return type mismatch between linked nodes", details, info)


def invalid_input_type(at: At, value: object, type_: str, error: Exception) -> Fault:
    """A constant cannot be converted to the input's type."""
    words = f"Failed to convert an input value to a {type_} value"
    info = at.info(received_value=value, exception_message=shorten(str(error)))
    return Fault("invalid_input_type", words, f"{at.path}, {show_value(value)}, {shorten(str(error))}", info)


def value_smaller_than_min(at: At, value: object, least: object) -> Fault:
    """A number is below its bound."""
    words = f"Value {show_value(value)} smaller than min of {least}"
    return Fault("value_smaller_than_min", words, at.path, at.info(received_value=value))


def value_bigger_than_max(at: At, value: object, most: object) -> Fault:
    """A number is above its bound."""
    words = f"Value {show_value(value)} bigger than max of {most}"
    return Fault("value_bigger_than_max", words, at.path, at.info(received_value=value))


def value_not_in_list(at: At, value: object, choices: Sequence[object]) -> Fault:
    """A value is none of the choices; a long list of them is not repeated."""
    is_long = len(choices) > _SHOWN_CHOICES_MAX
    listed = f"(list of length {len(choices)})" if is_long else str(list(choices))
    info = {"input_name": at.path, "input_config": None if is_long else at.config, "received_value": value}
    return Fault("value_not_in_list", "Value not in list", f"{at.path}: '{show_value(value)}' not in {listed}", info)


def custom_validation_failed(at: At, value: object, words: str) -> Fault:
    """The node's own check refuses an input."""
    details = f"{at.path} - {shorten(words)}" if words else at.path
    info = at.info(received_value=value)
    return Fault("custom_validation_failed", "Custom validation failed for node", details, info)


def dependency_cycle(node: str, way: Sequence[str], details: str) -> Fault:
    """The node depends on itself, through others."""
    info = {"node_id": node, "cycle_nodes": list(way)}
    return Fault("dependency_cycle", "Dependency cycle detected", details, info)


def exception_during_validation(error: BaseException, *, is_output: bool, **info: object) -> Fault:
    """A check raised an error, or a link leads nowhere."""
    facts = {**info, "exception_type": type(error).__name__, "exception_message": shorten(str(error))}
    if is_output:
        return Fault("exception_during_validation", "Exception when validating node", shorten(str(error)), facts)
    words = "Exception when validating inner node"
    return Fault("exception_during_inner_validation", words, shorten(str(error)), facts)


def show_value(value: object) -> str:
    """A constant as a message repeats it."""
    return shorten(str(value))


def shorten(text: str) -> str:
    """A text that a message can hold."""
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}…"
