"""Prose about the words of a prompt, from sentence patterns.

Every pattern is in the past tense with the topic where English needs no agreement, so that any word fits.
"""

import random
import re

from .seeds import digest, words

SENTENCES_MAX = 2000

_IGNORED = frozenset(
    words("""
    a an the and or but of in on at to for from with without by about into over under as is are was
    were be been it its this that these those my your his her our their i you he she we they me him
    them us do does did not no so if then than there here what which who how why when where can
    could should would will may must please write tell describe explain create generate make give
    story poem essay text paragraph sentence short long some any very really just like one two three
    words prompt
    """)
)

_ADJECTIVES = frozenset(
    words("""
    red blue green golden white black dark bright quiet loud old new young small big large tiny huge
    warm cold hot soft hard calm wild deep high low slow fast sweet bitter strange lonely happy sad
    gentle ancient modern silent distant hidden broken frozen rusty misty sunny rainy stormy starry
    empty secret lost last first
    """)
)

_ADJECTIVE_END = re.compile(r".{3,}(ful|less|ous|ish|ible|able|esque)$")

_BANK = {
    "quality": [
        "quiet", "patient", "restless", "familiar", "luminous", "weathered", "gentle", "unhurried",
        "generous", "stubborn", "careful", "half-remembered", "ordinary", "silver", "unspoken",
        "tender", "curious",
    ],
    "place": [
        "the harbour", "the long road", "the upper valley", "the old workshop", "the market square",
        "the far shore", "the garden wall", "the railway bridge", "the kitchen window",
        "the edge of the map", "the empty theatre",
    ],
    "who": [
        "the keeper", "a traveller", "the youngest of them", "an old painter", "the night watch",
        "the gardener", "a passing musician", "the mapmaker", "her grandmother", "the ferryman",
        "a stranger with a lantern",
    ],
    "time": [
        "That evening", "By morning", "Years later", "In the first week of spring",
        "Just before the rain", "Toward midnight", "On the third day", "When the lamps were lit",
        "After a long silence", "Once, in winter",
    ],
    "did": [
        "waited beside", "made a small drawing of", "wrote three careful lines about",
        "walked a long way toward", "kept a place at the table for", "listened closely to",
        "learned the true name of", "gave up arguing with", "built a shelter around",
        "carried home the memory of", "asked a single question about",
    ],
    "light": [
        "like a lamp behind paper", "the way water holds the sky",
        "as if somebody had just left the room", "with the patience of stone",
        "like a tune half remembered", "as softly as snow on a roof",
        "the way old letters keep their scent",
    ],
    "end": [
        "and nothing needed to be added", "and that was enough", "though nobody spoke of it aloud",
        "and the whole town seemed to lean closer", "until the last boat had gone",
        "and the silence was a kind one", "as it always had", "and for once nobody hurried",
    ],
}  # fmt: skip

_OPENINGS = [
    "Nobody could say when the {topic} had first come to {place}.",
    "It began with the {quality} {topic}, as such things often did.",
    "Before there was any talk of the {other}, there was the {topic}.",
    "Everything {who} knew about the {topic} had been learned at {place}.",
    "There had always been something {quality} about the {topic}.",
]

_MIDDLES = [
    "{time}, {who} {did} the {topic}.",
    "{time}, the {topic} seemed closer to the {other} than anyone had thought.",
    "The {other} could be seen from {place}, {light}.",
    "{who^} {did} the {quality} {topic}, {end}.",
    "What remained of the {topic} lay near {place}, {light}.",
    "{time}, {who} came back to {place} and {did} the {other}.",
    "Some called it {quality}; others called it only the {topic}.",
    "Between the {topic} and the {other} there was a {quality} kind of peace.",
    "The {topic} changed slowly, {light}, {end}.",
    "{who^} said that the {other} would outlast {place}, {end}.",
    "At {place} the light fell on the {quality} {other}, {end}.",
    "For a while {who} thought of nothing but the {topic}.",
    "{time}, even the {other} looked {quality}.",
    "It took a {quality} eye to tell the {topic} from the {other}.",
]

_SLOT = re.compile(r"\{(\w+)(\^?)\}")


def write(prompt: str, seed: int, max_characters: int) -> str:
    """Return prose of at most `max_characters`, ending with a whole sentence unless not even one fits."""
    rng = random.Random(digest(prompt, seed, "text"))  # noqa: S311 -- prose, not secrets
    topics, qualities = _subjects(prompt)
    bank = dict(_BANK, topic=topics, other=topics, quality=qualities + _BANK["quality"])
    text = _sentence(rng, _OPENINGS, bank)
    if len(text) > max_characters:
        return _cut_sentence(text, max_characters)
    patterns: list[str] = []
    left = rng.randint(2, 4)
    for _ in range(SENTENCES_MAX):
        if not patterns:
            patterns = rng.sample(_MIDDLES, len(_MIDDLES))
        addition = _sentence(rng, [patterns.pop()], bank)
        gap = " " if left else "\n\n"
        if len(text) + len(gap) + len(addition) > max_characters:
            break
        text += gap + addition
        left = left - 1 if left else rng.randint(3, 5)
    return text


def _subjects(prompt: str) -> tuple[list[str], list[str]]:
    """Return the prompt's topics (never fewer than two) and its adjectives, each once and in order."""
    found = [word[:40] for word in dict.fromkeys(words(prompt)) if len(word) > 1 and word not in _IGNORED]
    qualities = [word for word in found if word in _ADJECTIVES or _ADJECTIVE_END.match(word)]
    topics = [word for word in found if word not in qualities and not word.endswith("ly")]
    return topics + ["light", "weather", "silence"][: max(0, 2 - len(topics))], qualities * 3


def _sentence(rng: random.Random, patterns: list[str], bank: dict[str, list[str]]) -> str:
    topic = rng.choice(bank["topic"])
    others = [word for word in bank["other"] if word != topic] or [topic]
    chosen = dict(bank, topic=[topic], other=[rng.choice(others)])

    def fill(slot: re.Match[str]) -> str:
        word = rng.choice(chosen[slot.group(1)])
        return word[0].upper() + word[1:] if slot.group(2) else word

    return _article(_SLOT.sub(fill, rng.choice(patterns)))


def _article(sentence: str) -> str:
    return re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", sentence)


def _cut_sentence(text: str, length: int) -> str:
    """Return the start of a sentence that does not fit: whole words, and a full stop where one fits."""
    if length < 2:
        return text[:length]
    kept = text[: length - 1]
    if not text[length - 1].isspace() and " " in kept:
        kept = kept.rpartition(" ")[0]
    return kept.rstrip(" ,;:.") + "."
