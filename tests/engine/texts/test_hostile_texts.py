"""Texts that were made to be searched forever: each is a megabyte for which a search by squares would take hours."""

from pathlib import Path
from typing import Any

import pytest

from engine.nodes.folders import FolderContext
from fairlead.api.router.wire import dropped_text
from fairlead.engine.graph.faults import At
from fairlead.engine.graph.validation import limits_fault
from fairlead.engine.nodes.images_io import save_svg
from fairlead.engine.nodes.node import Declared
from fairlead.engine.packs.folders import PackFolders

pytestmark = pytest.mark.req("S-02")

_MANY = 1_000_000


def test_drawing_of_many_openings_is_saved_as_it_is(tmp_path: Path) -> None:
    """Each opening that never closes would be followed to the end of the document."""
    context = FolderContext(tmp_path, {"extra_pnginfo": {"note": "kept"}})
    saved: Any = save_svg(context, [b"<svg " * (_MANY // 5)], "x")
    assert next(tmp_path.rglob(saved.ui["images"][0]["filename"])).stat().st_size == _MANY


@pytest.mark.parametrize("name", [" " * _MANY, " " * _MANY + "[output", "[output]" * (_MANY // 8)])
def test_name_of_many_spaces_is_looked_at_once(name: str) -> None:
    """Which spaces belong to a name would be tried from each of them on."""
    kind, bare = PackFolders(None, ()).parse_name(name)
    assert kind == ("output" if name.endswith("]") else "input")
    assert name.startswith(bare)


def test_annotation_is_taken_off_a_name_with_its_spaces() -> None:
    """What the annotation means has not changed."""
    folders = PackFolders(None, ())
    assert folders.parse_name("a b.png  [temp]") == ("temp", "a b.png")
    assert folders.parse_name("a b.png [other]") == ("input", "a b.png [other]")


def test_many_choices_of_many_are_no_square() -> None:
    """A list of choices is checked against a set; choices that are not texts are compared one by one."""
    declared = Declared("COMBO", {"multiselect": True}, tuple(f"{number}.png" for number in range(100_000)))
    at = At("choices", ["COMBO", {}])
    assert limits_fault(["99999.png"] * 100_000, at, declared) is None
    assert limits_fault(["99999.png", "missing.png"], at, declared) is not None
    assert limits_fault([["a"]], at, declared) is not None


@pytest.mark.parametrize("entry", ["a" * _MANY, "https://x.example/" + "a" * _MANY + "?secret", "a:/" * (_MANY // 3)])
def test_dropped_field_of_any_name_is_told_at_once(entry: str) -> None:
    """A name of letters would be tried as the scheme of a link from each letter on."""
    assert b"secret" not in dropped_text([entry])
