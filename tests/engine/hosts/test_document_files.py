"""Large documents travel between server and host as files, and nothing else is read or written by their names."""

import os
from pathlib import Path

import pytest

from fairlead.engine.hosts.document_files import BYTES_MAX, INLINE_BYTES, DocumentFile, hand_over, take

_LARGE = b"a" * (INLINE_BYTES + 1)


@pytest.mark.req("S-02")
@pytest.mark.parametrize("content", [b"", b"{}", _LARGE[:-1], _LARGE, _LARGE * 9])
def test_document_arrives_as_it_was_handed_over(tmp_path: Path, content: bytes) -> None:
    """Whatever its size, the same bytes come out, and no file is left."""
    assert take(hand_over(content, tmp_path), tmp_path) == content
    assert list(tmp_path.iterdir()) == []


@pytest.mark.req("S-02")
def test_only_a_large_document_is_in_a_file(tmp_path: Path) -> None:
    """The usual workflow stays within its frame."""
    assert hand_over(_LARGE[:-1], tmp_path) == _LARGE[:-1]
    assert isinstance(hand_over(_LARGE, tmp_path), DocumentFile)


@pytest.mark.req("S-04")
@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "inner/file", "", ".", ".."])
def test_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    """A host names files of its own folder, and nothing else is read or removed."""
    folder = tmp_path / "host"
    (folder / "inner").mkdir(parents=True)
    for path in (tmp_path / "secret", folder / "inner" / "file"):
        path.write_bytes(b"kept")
    with pytest.raises((ValueError, OSError)):
        take(DocumentFile(name), folder)
    assert (tmp_path / "secret").exists()
    assert (folder / "inner" / "file").exists()


@pytest.mark.req("S-04")
def test_links_pipes_and_folders_are_refused(tmp_path: Path) -> None:
    """A link, a pipe, a folder and a file of terabytes are not documents, and are not waited for."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"kept")
    folder = tmp_path / "host"
    folder.mkdir()
    (folder / "link").symlink_to(secret)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    with (folder / "large").open("wb") as file:
        file.truncate(BYTES_MAX + 1)
    for name in ("link", "pipe", "folder", "large", "missing"):
        with pytest.raises((ValueError, OSError)):
            take(DocumentFile(name), folder)
    assert secret.read_bytes() == b"kept"
