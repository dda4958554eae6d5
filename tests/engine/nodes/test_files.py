"""Names lead to files in their folders and nowhere else; new files are numbered on, and are whole or not there."""

import re
from pathlib import Path

import pytest

from fairlead.engine.nodes.context import NoSuchFileError
from fairlead.engine.nodes.files import Folders


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with inputs, outputs and previews, and beside it a secret."""
    for name in ("input/sub/deep", "output", "temp", "inputs of others"):
        (tmp_path / "root" / name).mkdir(parents=True)
    for name in ("input/a.png", "input/sub/b.png", "input/sub/deep/c.png", "output/o.png", "temp/t.png", "secret"):
        (tmp_path / "root" / name).write_text(name)
    (tmp_path / "root" / "inputs of others" / "d.png").write_text("others'")
    return tmp_path / "root"


@pytest.fixture
def folders(root: Path) -> Folders:
    """Return the files of a job there."""
    return Folders(root / "input", root / "output", root / "temp")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("a.png", "input/a.png"),
        ("a.png [input]", "input/a.png"),
        ("sub/b.png", "input/sub/b.png"),
        ("sub/../a.png", "input/a.png"),
        ("o.png [output]", "output/o.png"),
        ("t.png [temp]", "temp/t.png"),
    ],
)
def test_name_is_found_in_its_folder(folders: Folders, name: str, found: str) -> None:
    """A name may say its folder, and lie below it."""
    assert folders.input_file(name).read_text() == found


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..", "gone.png", "a.png\0", "../secret", "sub/../../secret", "../inputs of others/d.png", "o.png",
        "a.png [elsewhere]", "../secret [output]", "sub", "x" * 5000, "a.png" + " " * 100_000 + "[input", "\ud800.png",
    ],
)  # fmt: skip
def test_name_that_leads_elsewhere_is_refused(folders: Folders, name: str) -> None:
    """Dots, absolute paths, endless names, folders: no file, told in words."""
    with pytest.raises(NoSuchFileError):
        folders.input_file(name)


def test_absolute_name_is_refused(folders: Folders, root: Path) -> None:
    """An absolute name is refused even where it leads to a file of the inputs."""
    for name in (root / "secret", root / "input" / "a.png"):
        with pytest.raises(NoSuchFileError):
            folders.input_file(str(name))


def test_symbolic_link_is_not_followed(folders: Folders, root: Path) -> None:
    """No link leads out of the folders, be it to a file or to a folder, for reading or for writing."""
    (root / "input" / "link.png").symlink_to(root / "secret")
    (root / "input" / "linked").symlink_to(root / "inputs of others")
    (root / "output" / "linked").symlink_to(root / "inputs of others")
    for name in ("link.png", "linked/d.png"):
        with pytest.raises(NoSuchFileError):
            folders.input_file(name)
    assert list(folders.input_files(".")) == ["a.png", "sub/b.png"]
    with pytest.raises(ValueError, match="leads out"):
        folders.new_file("linked/x", "png", "output", {})
    with pytest.raises(NoSuchFileError):
        folders.named_file("linked/d.png", "output")


def test_folder_is_listed_one_level_deep(folders: Folders) -> None:
    """Its files and those right below it, by names that can be asked for."""
    assert list(folders.input_files("sub")) == ["sub/b.png", "sub/deep/c.png"]
    for name in ("gone", "..", "../output", "a.png"):
        with pytest.raises(NoSuchFileError):
            folders.input_files(name)


def test_numbers_go_on_from_the_highest(folders: Folders, root: Path) -> None:
    """They go on from the highest there is of the prefix, whatever its extension."""
    for name in ("x_00007_.jpg", "x_00003_.png", "x_y_00099_.png", "xx_00050_.png", "x_9.png", "x_abc_.png"):
        (root / "output" / name).touch()
    assert [folders.new_file("x", "png", "output", {})[1].filename for _ in range(2)] == [
        "x_00010_.png",
        "x_00011_.png",
    ]


def test_file_name_is_given_once(root: Path) -> None:
    """A name is taken from the moment it is given out, though the file is not there yet."""
    names = {
        Folders(root / "input", root / "output", root / "temp").new_file("x", "png", "output", {})[1].filename
        for _ in range(5)
    }
    assert len(names) == 5


def test_placeholders_are_filled_in(folders: Folders) -> None:
    """Sizes and the date are filled in, and folders made; what nobody knows stays."""
    path, file = folders.new_file(
        "%year%-%month%-%day%/%width%x%height% %hour%%minute%%second% %no%",
        "png",
        "output",
        {"width": 64, "height": 48},
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", file.subfolder)
    assert re.fullmatch(r"64x48 \d{6} %no%_00001_\.png", file.filename)
    assert path.parent.is_dir()


def test_new_file_is_invisible_until_it_is_whole(folders: Folders, root: Path) -> None:
    """It is written under another name, has its own when it is kept, and leaves nothing when it is not."""
    path, file = folders.new_file("deep/er/x", "png", "temp", {})
    path.write_text("whole")
    final = root / "temp" / "deep" / "er" / "x_00001_.png"
    assert final.read_text() == ""
    folders.keep(path)
    assert (final.read_text(), file.as_ui()) == (
        "whole",
        {"filename": "x_00001_.png", "subfolder": "deep/er", "type": "temp"},
    )
    assert list(folders.new_files()) == [(file, final)]
    dropped, _ = folders.new_file("deep/er/x", "png", "temp", {})
    dropped.write_text("half")
    folders.discard(dropped)
    unwritten, _ = folders.new_file("deep/er/x", "png", "temp", {})
    folders.keep(unwritten)
    assert [path.name for path in final.parent.iterdir()] == ["x_00001_.png"]


def test_named_file_is_replaced_only_when_the_new_one_is_whole(folders: Folders, root: Path) -> None:
    """A file of a chosen name replaces an older one when it is whole, and not before."""
    path, file = folders.named_file("o.png", "output")
    path.write_text("half")
    folders.discard(path)
    assert (root / "output" / "o.png").read_text() == "output/o.png"
    again, _ = folders.named_file("o.png", "output")
    again.write_text("whole")
    folders.keep(again)
    assert (root / "output" / "o.png").read_text() == "whole"
    assert (file.filename, file.subfolder) == ("o.png", "")


@pytest.mark.parametrize("prefix", ["../x", "a/../../x", "/x", "..", ".", "x" * 300, "x" * 5000, "x\0", "\ud800"])
def test_prefix_that_leads_elsewhere_is_refused(folders: Folders, root: Path, prefix: str) -> None:
    """It is refused, and nothing was made."""
    with pytest.raises(ValueError, match="prefix"):
        folders.new_file(prefix, "png", "output", {})
    assert [path.name for path in (root / "output").iterdir()] == ["o.png"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/x", "x" * 300, "x\0", "a/../../x"])
def test_chosen_name_that_leads_elsewhere_is_refused(folders: Folders, name: str) -> None:
    """A chosen name is refused for the same reasons as a name to read."""
    with pytest.raises(NoSuchFileError):
        folders.named_file(name, "output")


def test_no_file_is_written_among_the_inputs(folders: Folders) -> None:
    """New files are outputs or previews, with an extension that is one."""
    with pytest.raises(ValueError, match="no folder"):
        folders.new_file("x", "png", "input", {})
    with pytest.raises(NoSuchFileError):
        folders.named_file("x.png", "input")
    for extension in ("", "p/g", "a b", "../x", "x" * 20):
        with pytest.raises(ValueError, match="extension"):
            folders.new_file("x", extension, "output", {})
