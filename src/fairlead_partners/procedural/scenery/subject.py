"""What a prompt names: places, figures, weather, time of day, season and colours, and what it does not want."""

import re
from typing import Final

import msgspec

from .vocabulary import COLOURS, CONDITIONS, FIGURES, MANY, PLACES, SEASONS, SKIES, TIMES

_CLAUSE: Final = re.compile(r"[,.;:!?\n]|\b(?:but|with|at|in|on|under|over|during|beside|near|behind|before)\b")
_NEGATION: Final = re.compile(r"\b(?:no|not|without|never|nor|except|minus|lacking|free of|instead of)\b")
_WORD: Final = re.compile(r"[^\W_]+")
_COLOUR_REACH: Final = 2
"""How many words may stand between a colour and the figure it belongs to."""
_GREEN: Final = frozenset({"meadow", "hills", "forest", "pinewood", "mountain"})
"""Places that are green anyway: the word says nothing about the light there."""
_NIGHTLY: Final = frozenset({"moon", "stars", "aurora"})
"""What is seen at night, where no time of day is named."""


class Figure(msgspec.Struct, frozen=True):
    """Something that stands in the picture: its kind, how many are asked for, and its colour if one is named."""

    kind: str
    count: int = 1
    colour: str | None = None


class Subject(msgspec.Struct, frozen=True):
    """What the words ask for; empty and None where they say nothing."""

    places: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    conditions: tuple[str, ...] = ()
    skies: tuple[str, ...] = ()
    time: str | None = None
    season: str | None = None
    colours: tuple[str, ...] = ()
    refused: frozenset[str] = frozenset()
    """What must not be in the picture, in the same words as the fields above."""

    @property
    def is_place(self) -> bool:
        """Whether the words name anything that a picture of a place can show."""
        return bool(self.places or self.figures or self.conditions or self.skies or self.time or self.season)


def read(prompt: str) -> Subject:
    """Return what a prompt names; plurals and common synonyms count, and negated words count as refused."""
    wanted: list[str] = []
    refused: list[str] = []
    for clause in _CLAUSE.split(prompt.lower()):
        parts = _NEGATION.split(clause)
        wanted += [*_WORD.findall(parts[0]), "."]
        for part in parts[1:]:
            refused += _WORD.findall(part)
    found_refused = frozenset(name for table in _TABLES for name in _names(refused, table))
    figures = tuple(figure for figure in _figures(wanted) if figure.kind not in found_refused)
    times, seasons = _accepted_names(wanted, TIMES, found_refused), _accepted_names(wanted, SEASONS, found_refused)
    skies = _accepted_names(wanted, SKIES, found_refused)
    if not times and not _NIGHTLY.isdisjoint(skies) and "night" not in found_refused:
        times = ("night",)
    return Subject(
        places=_accepted_names(wanted, PLACES, found_refused),
        figures=figures,
        conditions=_accepted_names(wanted, CONDITIONS, found_refused),
        skies=skies,
        time=times[0] if times else None,
        season=seasons[0] if seasons else None,
        colours=_scene_colours(wanted, found_refused),
        refused=found_refused,
    )


_TABLES: Final = (PLACES, FIGURES, CONDITIONS, SKIES, TIMES, SEASONS, COLOURS)


def _look_up(word: str, table: dict[str, str]) -> str | None:
    """Return what a word means in a table, also when it is a plural."""
    for form in (word, word.removesuffix("s"), word.removesuffix("es"), word.removesuffix("y") + "s"):
        if form in table:
            return table[form]
    return table.get(word[:-3] + "y") if word.endswith("ies") else None


def _names(words: list[str], table: dict[str, str]) -> list[str]:
    """Return what the words mean in a table, each once and in order."""
    found = (_look_up(word, table) for word in words)
    return list(dict.fromkeys(name for name in found if name is not None))


def _accepted_names(words: list[str], table: dict[str, str], refused: frozenset[str]) -> tuple[str, ...]:
    return tuple(name for name in _names(words, table) if name not in refused)


def _figures(words: list[str]) -> list[Figure]:
    """Return the figures, with the number and the colour that stand shortly before them."""
    found: dict[str, Figure] = {}
    for place, word in enumerate(words):
        kind = _look_up(word, FIGURES)
        if kind is None or kind in found:
            continue
        before = words[max(0, place - 1 - _COLOUR_REACH) : place]
        before = before[len(before) - before[::-1].index(".") :] if "." in before else before
        counts = [MANY[other] for other in [*before, word] if other in MANY]
        colours = [COLOURS[other] for other in before if other in COLOURS]
        plural = 3 if word not in FIGURES and word.endswith("s") else 1
        found[kind] = Figure(kind, counts[-1] if counts else plural, colours[-1] if colours else None)
    return list(found.values())


def _scene_colours(words: list[str], refused: frozenset[str]) -> tuple[str, ...]:
    """Return the colours that do not belong to a figure."""
    found: list[str] = []
    for place, word in enumerate(words):
        colour = COLOURS.get(word)
        if colour is None or colour in refused or colour in found:
            continue
        after = words[place + 1 : place + 2 + _COLOUR_REACH]
        after = after[: after.index(".")] if "." in after else after
        is_own = colour == COLOURS["green"] and any(_look_up(other, PLACES) in _GREEN for other in after)
        if not is_own and not any(_look_up(other, FIGURES) for other in after):
            found.append(colour)
    return tuple(found)
