"""Methods of one process that another may call: arguments, results and dispatch follow from their signatures.

A definition is a Protocol whose coroutine methods are declared once. The caller passes the method itself, so the type
checker compares the arguments with its signature; the other side implements the Protocol.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, get_type_hints

import msgspec


class BadArgumentsError(ValueError):
    """The arguments of a call are not those that its method takes."""


class Method:
    """One method of a definition. Paths travel as texts; bounds and kinds are checked as its annotations say."""

    def __init__(self, function: Callable[..., object]) -> None:
        parameters = list(inspect.signature(function).parameters.values())[1:]
        hints = get_type_hints(function, include_extras=True)
        self.name: Final = function.__name__
        fields = [(one.name, hints[one.name]) for one in parameters]
        self.arguments: Final = msgspec.defstruct(
            self.name, fields, array_like=True, forbid_unknown_fields=True, frozen=True
        )
        """The record of its arguments, made with these."""
        self._keywords = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
        self._read_arguments = msgspec.msgpack.Decoder(self.arguments, dec_hook=_read).decode
        self.read_result: Final = msgspec.msgpack.Decoder(hints["return"], dec_hook=_read).decode
        """Read what the method has returned."""

    async def call(self, implementation: object, arguments: msgspec.Raw, check_path: Callable[[Path], Path]) -> object:
        """Call the method of an implementation. Each path among the arguments is what `check_path` returns for it.

        BadArgumentsError, and what the method or `check_path` raises.
        """
        try:
            given = msgspec.structs.astuple(self._read_arguments(arguments))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise BadArgumentsError(f"{self.name} does not take this: {error}") from error
        values = [check_path(value) if isinstance(value, Path) else value for value in given]
        positional = len(values) - len(self._keywords)
        keywords = dict(zip(self._keywords, values[positional:], strict=True))
        return await getattr(implementation, self.name)(*values[:positional], **keywords)


def methods_of(definition: type) -> Mapping[str, Method]:
    """The methods that a definition declares, with those that it inherits, by their names."""
    return {name: Method(function) for name, function in inspect.getmembers(definition, inspect.iscoroutinefunction)}


def write_path(value: object) -> str:
    """Write what MessagePack lacks, which is a path. TypeError for anything else."""
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"a value of the type {type(value).__name__} cannot be sent")


def _read(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise ValueError(f"{kind.__name__} is expected")
