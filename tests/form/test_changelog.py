"""The changelog keeps the shape of keepachangelog.com."""

import datetime as dt
import re
from typing import Final

from fairlead import __version__
from form.sources import ROOT

_HEADING: Final = re.compile(r"## \[(?P<version>Unreleased|\d+\.\d+\.\d+)\](?: - (?P<date>\d{4}-\d\d-\d\d))?")
_KINDS: Final = frozenset({"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"})


def _headings(level: str) -> list[str]:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith(f"{level} ")]


def test_every_heading_of_the_changelog_is_a_version() -> None:
    """Each second-level heading is `## [Unreleased]` or `## [1.2.3] - 2026-01-31`, and there is one at least."""
    headings = _headings("##")
    assert headings
    assert [heading for heading in headings if not _HEADING.fullmatch(heading)] == []


def test_every_release_has_a_valid_date() -> None:
    """Each release has the day it was made; what is unreleased has none."""
    found = [match for heading in _headings("##") if (match := _HEADING.fullmatch(heading))]
    assert [match[0] for match in found if (match["version"] == "Unreleased") != (match["date"] is None)] == []
    for match in found:
        if match["date"] is not None:
            dt.date.fromisoformat(match["date"])


def test_changelog_is_newest_first() -> None:
    """What is unreleased comes first, then the releases from the newest to the oldest, each once."""
    versions = [match["version"] for heading in _headings("##") if (match := _HEADING.fullmatch(heading))]
    numbers = [tuple(int(part) for part in version.split(".")) for version in versions if version != "Unreleased"]
    assert sorted(set(numbers), reverse=True) == numbers
    assert "Unreleased" not in versions[1:]


def test_changes_are_grouped_under_known_titles() -> None:
    """Changes are grouped under the six titles of Keep a Changelog."""
    assert set() == {heading.removeprefix("### ") for heading in _headings("###")} - _KINDS


def test_version_of_the_package_is_in_the_changelog() -> None:
    """The version in the package is a release in the changelog, or is still unreleased."""
    versions = {match["version"] for heading in _headings("##") if (match := _HEADING.fullmatch(heading))}
    assert versions & {__version__, "Unreleased"}
