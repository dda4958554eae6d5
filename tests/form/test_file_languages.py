"""docs/provider-files.md and docs/catalog-files.md explain every word of their languages."""

import re
from collections.abc import Iterator
from types import ModuleType

import msgspec
import pytest

from fairlead.domain import pointers
from fairlead.providers import spec_files
from fairlead.storage.catalog import files as catalog_files
from form.sources import DOCS

_LANGUAGES = [("provider-files.md", spec_files), ("provider-files.md", pointers), ("catalog-files.md", catalog_files)]


@pytest.mark.parametrize(("page", "module"), _LANGUAGES)
def test_every_field_of_a_file_is_explained(page: str, module: ModuleType) -> None:
    """Each field a file may have stands in a table, or names the section it has to itself."""
    text = (DOCS / page).read_text(encoding="utf-8")
    cells = "\n".join(line.split("|")[1] for line in text.splitlines() if line.startswith("|"))
    explained = set(re.findall(r"`(?:\w+\.)?(\w+)(?: = [^`]*)?`", cells))
    titles = set(re.findall(r"\w+", "\n".join(line for line in text.splitlines() if line.startswith("## "))))
    assert sorted(_words(module) - explained - titles) == []


def _words(module: ModuleType) -> set[str]:
    kinds: Iterator[type[msgspec.Struct]] = (
        found
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, msgspec.Struct) and found.__module__ == module.__name__
    )
    read = (kind for kind in kinds if kind.__struct_config__.forbid_unknown_fields)  # the others are records of ours
    return {name for kind in read for name in kind.__struct_encode_fields__}
