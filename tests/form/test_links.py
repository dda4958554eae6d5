"""Pages lead somewhere: every relative link names a file, and every anchor a heading of its page."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from form.sources import ROOT, project_files

_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def test_every_link_of_a_page_leads_to_a_file_and_a_heading() -> None:
    """Links to the web are not followed."""
    assert list(_find_broken()) == []


def _find_broken() -> Iterator[str]:
    for page in project_files():
        if page.suffix != ".md":
            continue
        for link in _LINK.findall(_prose(page)):
            name, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:", name):
                continue
            target = (page.parent / name).resolve() if name else page
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in _anchors(target)):
                yield f"{page.relative_to(ROOT)}: {link}"


def _prose(page: Path) -> str:
    return _CODE.sub("", page.read_text(encoding="utf-8"))


@cache
def _anchors(page: Path) -> frozenset[str]:
    """The anchors of a page as GitHub makes them; a heading that comes twice is numbered the second time."""
    found: list[str] = []
    for heading in _HEADING.findall(_prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        times = found.count(anchor)
        found.append(f"{anchor}-{times}" if times else anchor)
    return frozenset(found)
