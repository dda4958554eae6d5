"""docs/settings.md describes every setting, and only those that exist."""

import re
from typing import Final

from fairlead.server.settings import SETTINGS
from form.sources import DOCS

_PAGE: Final = DOCS / "settings.md"


def test_every_setting_is_described() -> None:
    """Each setting has a line with its variable and its sentence."""
    lines = _PAGE.read_text(encoding="utf-8").splitlines()
    missing = [
        setting.env
        for setting in SETTINGS.values()
        if not any(f"`{setting.env}`" in line and setting.sentence in line for line in lines)
    ]
    assert missing == []


def test_every_described_setting_exists() -> None:
    """Every variable at the head of a table row is a setting."""
    described = re.findall(r"^\| `([A-Z][A-Z0-9_]+)`", _PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(described) - {setting.env for setting in SETTINGS.values()} == set()


def test_every_setting_has_one_name() -> None:
    """The mapping's key is the setting's own name, and no variable serves two settings."""
    assert {name: setting.name for name, setting in SETTINGS.items() if name != setting.name} == {}
    assert len({setting.env for setting in SETTINGS.values()}) == len(SETTINGS)
