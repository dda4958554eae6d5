"""Names of what editors keep."""

import pytest

from fairlead.domain.accounts.editor_documents import NAME_MAX, is_file_path, is_setting


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", "..", "../a", "a/../b", "./a", "a\\b", "a\0", "a\nb", "\ud800", "a" * 201]
)
def test_path_that_leads_elsewhere_is_refused(path: str) -> None:
    """A file's name has segments, and none that leads elsewhere."""
    assert not is_file_path(path)


@pytest.mark.parametrize("path", ["a", "workflows/a b.json", "été/…/a.b", ".hidden", "a" * NAME_MAX])
def test_usual_file_path_is_taken(path: str) -> None:
    """What people call their files is taken."""
    assert is_file_path(path)


def test_setting_needs_a_printable_id_of_bounded_length() -> None:
    """A setting has a printable id of a bounded length."""
    assert is_setting("Comfy.Graph/Zoom %")
    assert not any(is_setting(text) for text in ("", "a\0", "a" * (NAME_MAX + 1)))
