"""What a body makes a vendor do: how much of what, read as leniently as vendors read.

A vendor that serves many models has an `App` for each it knows; `Call.made` tells the work to anyone who asks for the
calls that were received. A number may be a text, nothing and zero mean the default, and any text that is not empty is
true: anyone who prices a body before it is sent must not count on a vendor to refuse it.
"""

import math
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec.structs import asdict, replace

from . import checks
from .vendor import Problem

Kind = Literal["image", "video", "audio"]
_NUMBER_MAX = 1e9


class Range(msgspec.Struct, frozen=True):
    """A whole number in a body: where it stands, its bounds, and what it is when nothing is there."""

    name: str
    low: int
    high: int
    default: int
    auto: int = 0
    """What the text `auto` comes to, where the vendor takes that."""


class Choice(msgspec.Struct, frozen=True):
    """One of some words in a body, in upper or lower case."""

    name: str
    words: tuple[str, ...]
    default: str


class Work(msgspec.Struct, frozen=True):
    """What was made of a body. `quality` is the word that chose it; `pictures` and `clips` are what was given.

    `extras` are further things that were asked for and cost extra at the vendor.
    """

    kind: Kind
    outputs: int = 1
    width: int = 1024
    height: int = 1024
    seconds: int = 0
    sound: bool = False
    quality: str = ""
    pictures: int = 0
    clips: int = 0
    extras: tuple[str, ...] = ()

    def document(self, model: str) -> dict[str, object]:
        """Return it as JSON, with the vendor's name of the model."""
        return {"model": model, **asdict(self)}


class App(msgspec.Struct, frozen=True):
    """One model of a vendor: what its fields ask for. `sizes` are the words `size` may have, beside two numbers."""

    kind: Kind
    outputs: Range | None = None
    size: str = ""
    sizes: Mapping[str, tuple[int, int]] | None = None
    default_size: tuple[int, int] = (1024, 1024)
    seconds: Range | None = None
    shots: str = ""
    sound: tuple[str, bool] | None = None
    quality: Choice | None = None
    needs: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    clips: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()

    def work(self, body: Mapping[str, object]) -> Work:
        """Return what a body asks for; Problem `invalid` naming the field."""
        checks.present(body, *self.needs)
        width, height = self._size(body)
        return Work(
            self.kind,
            1 if self.outputs is None else amount(body, self.outputs),
            width,
            height,
            self._seconds(body),
            self.sound is not None and flag(body, *self.sound),
            "" if self.quality is None else word(body, self.quality),
            sum(count(body, name) for name in self.pictures),
            sum(count(body, name) for name in self.clips),
            tuple(name for name in self.extras if checks.at(body, name)),
        )

    def _size(self, body: Mapping[str, object]) -> tuple[int, int]:
        given = body if not self.size else checks.at(body, self.size)
        if isinstance(given, str) and self.sizes is not None and given in self.sizes:
            return self.sizes[given]
        if not isinstance(given, Mapping) or not any(given.get(side) for side in ("width", "height")):
            return self.default_size
        width, height = self.default_size
        return amount(given, Range("width", 64, 4096, width)), amount(given, Range("height", 64, 4096, height))

    def _seconds(self, body: Mapping[str, object]) -> int:
        if self.seconds is None:
            return 0
        shots = checks.at(body, self.shots) if self.shots else None
        if not isinstance(shots, list) or not shots:
            return amount(body, self.seconds)
        one = replace(self.seconds, low=1)
        whole = sum(amount(shot, one) if isinstance(shot, Mapping) else one.default for shot in shots)
        if whole > self.seconds.high:
            raise Problem("invalid", f"All shots together last at most {self.seconds.high} s.", field=self.shots)
        return whole


def amount(body: Mapping[str, object], wanted: Range) -> int:
    """Read a number leniently, rounded up."""
    value = checks.at(body, wanted.name)
    if isinstance(value, str) and value.strip().lower() == "auto" and wanted.auto:
        return wanted.auto
    if value is None or value in ("", 0):
        return wanted.default
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not abs(number) < _NUMBER_MAX:
        raise Problem("invalid", f"'{wanted.name}' must be a number.", field=wanted.name, code="type")
    if not wanted.low <= math.ceil(number) <= wanted.high:
        message = f"'{wanted.name}' must be between {wanted.low} and {wanted.high}."
        raise Problem("invalid", message, field=wanted.name, code="range")
    return math.ceil(number)


def flag(body: Mapping[str, object], name: str, default: bool) -> bool:  # noqa: FBT001 -- it is what stands in the body
    """Read a switch leniently: a text is true unless it is empty or says `off`."""
    value = checks.at(body, name)
    return default if value is None else bool(value) and value != "off"


def word(body: Mapping[str, object], wanted: Choice) -> str:
    """Read one of some words leniently, in any case."""
    value = checks.at(body, wanted.name)
    if value is None or value == "":
        return wanted.default
    for known in wanted.words:
        if str(value).lower() == known.lower():
            return known
    choices = ", ".join(wanted.words)
    raise Problem("invalid", f"'{wanted.name}' must be one of {choices}.", field=wanted.name, code="enum")


def count(body: Mapping[str, object], name: str) -> int:
    """Count what is given: the items of an array, or one."""
    value = checks.at(body, name)
    if isinstance(value, list):
        return sum(1 for item in value if item)
    return 1 if value else 0
