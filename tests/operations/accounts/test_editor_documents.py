"""What editors keep: settings and files of a workspace, within bounds, and nobody else's."""

from collections.abc import Callable
from typing import Any

import pytest

from conftest import Run
from fairlead.clock import Clock
from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import FaultError, InvalidInput, RequestNotFound
from fairlead.domain.jobs.faults import BadFile, FileExists, FileTooLarge, JobFault, JobFaultError
from fairlead.operations.accounts import editor_documents
from fairlead.operations.accounts.editor_documents import DOCUMENT_BYTES_MAX, SETTING_BYTES_MAX, EditorDocuments
from fairlead.storage.db.database import Database
from storage.bookings import NOW, Books

LAB = Caller("lab-id", "lab")
OTHER = Caller("other-id", "other")


@pytest.fixture
def documents(database: Database, books: Books) -> EditorDocuments:
    """Return the documents of two workspaces."""
    books.open()
    books.open(id_="other-id")
    return EditorDocuments(database, Clock(lambda: NOW * 1_000_000))


def is_missing(run: Run, work: Any) -> bool:
    """Tell whether something ends in a file that there is not."""
    with pytest.raises(FaultError) as raised:
        run(work)
    return isinstance(raised.value.fault, RequestNotFound)


def fault_of(run: Run, work: Any) -> JobFault:
    """Return the fault that something ends in."""
    with pytest.raises(JobFaultError) as raised:
        run(work)
    return raised.value.fault


def test_setting_is_what_it_was_changed_to_last(documents: EditorDocuments, run: Run) -> None:
    """A setting is what it was changed to last; others stay as they are, and so do those of other workspaces."""
    run(documents.change_settings(LAB, {"b": b"1", "a/b": b'"x"'}))
    run(documents.change_settings(LAB, {"b": b"2"}))
    assert run(documents.settings(LAB)) == {"a/b": b'"x"', "b": b"2"}
    assert run(documents.setting(LAB, "b")) == b"2"
    assert run(documents.setting(LAB, "c")) is None
    assert run(documents.settings(OTHER)) == {}
    assert run(documents.setting(OTHER, "b")) is None


def test_file_belongs_to_its_workspace_alone(documents: EditorDocuments, run: Run) -> None:
    """A file is its workspace's: no other reads, lists, moves or deletes it."""
    put = run(documents.put_file(LAB, "workflows/a.json", b"{}", replace=True))
    assert (put.name, put.size, put.changed_at) == ("workflows/a.json", 2, NOW)
    assert run(documents.file(LAB, "workflows/a.json")) == b"{}"
    for work in (
        documents.file(OTHER, "workflows/a.json"),
        documents.delete_file(OTHER, "workflows/a.json"),
        documents.move_file(OTHER, "workflows/a.json", "b", replace=True),
    ):
        assert is_missing(run, work)
    assert run(documents.files(OTHER)) == []


def test_folder_lists_its_own_files(documents: EditorDocuments, run: Run) -> None:
    """A folder lists its own files, deeper ones on request, and none of a folder whose name begins alike."""
    for path in ("a/1", "a/b/2", "ab/3", "A/4", "5", "a%/6"):
        run(documents.put_file(LAB, path, b"x", replace=False))

    def names(folder: str, *, deep: bool = False) -> list[str]:
        return [file.name for file in run(documents.files(LAB, folder, deep=deep))]

    assert names("") == ["5"]
    assert names("a") == names("a/") == ["1"]
    assert names("a", deep=True) == ["1", "b/2"]
    assert names("a%") == ["6"]
    assert names("nowhere") == []
    assert sorted(names("", deep=True)) == ["5", "A/4", "a%/6", "a/1", "a/b/2", "ab/3"]


def test_settings_and_files_are_kept_apart(documents: EditorDocuments, run: Run) -> None:
    """Settings and files are apart, whatever they are called."""
    run(documents.change_settings(LAB, {"userdata/a": b"1"}))
    run(documents.put_file(LAB, "settings/a", b"2", replace=True))
    assert [file.name for file in run(documents.files(LAB, deep=True))] == ["settings/a"]
    assert run(documents.settings(LAB)) == {"userdata/a": b"1"}


def test_file_is_replaced_only_on_request(documents: EditorDocuments, run: Run) -> None:
    """A file is only put or moved in another's place where that is wanted."""
    run(documents.put_file(LAB, "a", b"1", replace=False))
    run(documents.put_file(LAB, "b", b"2", replace=False))
    assert fault_of(run, documents.put_file(LAB, "a", b"3", replace=False)) == FileExists("a")
    assert fault_of(run, documents.move_file(LAB, "a", "b", replace=False)) == FileExists("b")
    assert (run(documents.file(LAB, "a")), run(documents.file(LAB, "b"))) == (b"1", b"2")
    assert run(documents.move_file(LAB, "a", "a", replace=False)).name == "a"
    moved = run(documents.move_file(LAB, "a", "b", replace=True))
    assert (moved.name, moved.size) == ("b", 1)
    assert [file.name for file in run(documents.files(LAB))] == ["b"]
    assert run(documents.file(LAB, "b")) == b"1"
    run(documents.delete_file(LAB, "b"))
    assert is_missing(run, documents.delete_file(LAB, "b"))


def test_documents_are_bounded_in_number_and_size(
    documents: EditorDocuments, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are so many settings and files, of such a size, and no more; what is too much changes nothing."""
    monkeypatch.setattr(editor_documents, "DOCUMENTS_MAX", 2)
    run(documents.change_settings(LAB, {"a": b"1", "b": b"1"}))
    assert isinstance(fault_of(run, documents.change_settings(LAB, {"a": b"2", "c": b"2"})), BadFile)
    assert run(documents.settings(LAB)) == {"a": b"1", "b": b"1"}
    run(documents.change_settings(LAB, {"a": b"3"}))
    run(documents.put_file(LAB, "a", b"1", replace=True))
    run(documents.put_file(LAB, "b", b"1", replace=True))
    assert isinstance(fault_of(run, documents.put_file(LAB, "c", b"1", replace=True)), BadFile)
    run(documents.put_file(OTHER, "c", b"1", replace=True))
    run(documents.put_file(LAB, "b", b"x" * DOCUMENT_BYTES_MAX, replace=True))
    too_large = documents.put_file(LAB, "b", b"x" * (DOCUMENT_BYTES_MAX + 1), replace=True)
    assert fault_of(run, too_large) == FileTooLarge(DOCUMENT_BYTES_MAX)
    too_long = documents.change_settings(LAB, {"a": b"x" * (SETTING_BYTES_MAX + 1)})
    assert fault_of(run, too_long) == FileTooLarge(SETTING_BYTES_MAX)


@pytest.mark.parametrize(
    "ask",
    [
        lambda documents: documents.file(LAB, "../a"),
        lambda documents: documents.files(LAB, "a//b"),
        lambda documents: documents.put_file(LAB, "a\0", b"", replace=True),
        lambda documents: documents.move_file(LAB, "a", "", replace=True),
        lambda documents: documents.delete_file(LAB, "/a"),
        lambda documents: documents.setting(LAB, ""),
        lambda documents: documents.change_settings(LAB, {"a\0": b"1"}),
    ],
)
def test_malformed_name_is_never_looked_up(
    documents: EditorDocuments, run: Run, ask: Callable[[EditorDocuments], Any]
) -> None:
    """A name that can be none is refused before anything is looked up."""
    with pytest.raises(FaultError) as raised:
        run(ask(documents))
    assert isinstance(raised.value.fault, InvalidInput)
