"""What the kit says of the product is so: its settings, and where its files are."""

import shutil
import subprocess
from typing import Final

import pytest

from deploy.kit import DEPLOY, texts, unknown_settings
from form.sources import ROOT

_TEXTS: Final = dict(texts())


@pytest.mark.parametrize("name", _TEXTS)
def test_settings_of_the_kit_exist(name: str) -> None:
    """Every variable that is named like a setting is one; a misspelled one would be reported and ignored."""
    assert unknown_settings(_TEXTS[name]) == set()


def test_secrets_are_in_no_file_of_the_kit() -> None:
    """The example has every secret empty, and nothing has a default for one."""
    lines = _TEXTS["compose/env.example"].splitlines()
    example = dict(line.split("=", 1) for line in lines if line and line[0] != "#")
    secrets = {name for name in example if name != "FAIRLEAD_PUBLIC_BASE_URL"}
    assert {example[name] for name in secrets} == {""}
    for name in secrets:
        assert f"${{{name}:-" not in _TEXTS["compose/compose.yaml"]


def test_image_is_built_of_files_that_are_there() -> None:
    """What the Dockerfile copies exists and is sent to the build; what it installs is pinned with hashes."""
    lines = _TEXTS["Dockerfile"].splitlines()
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    copied = {word for words in copies for word in words}
    assert copied <= sent
    assert all((ROOT / name).exists() for name in sent)
    assert any("--require-hashes -r requirements/run.txt" in line for line in lines)


def test_image_runs_as_a_user_without_rights() -> None:
    """By number, as Kubernetes asks for; it has a check of its health, and stops as a server does."""
    final = _TEXTS["Dockerfile"].rpartition("\nFROM ")[2].splitlines()
    assert [line for line in final if line.startswith("USER ")] == ["USER 10001:10001"]
    assert {"STOPSIGNAL SIGTERM", 'ENTRYPOINT ["tini", "--", "fairlead"]'} <= set(final)
    assert any(line.startswith("HEALTHCHECK ") for line in final)
    assert not any(line.startswith("ADD ") or "curl" in line for line in final)


def test_scripts_are_clean() -> None:
    """Shellcheck finds nothing in the scripts of the repository."""
    shellcheck = shutil.which("shellcheck")
    scripts = [ROOT / ".ci" / "run", *DEPLOY.rglob("*.sh")]
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)
    if shellcheck is None:
        pytest.skip("shellcheck is not installed: it is in Debian's package shellcheck")
    subprocess.run([shellcheck, *map(str, scripts)], check=True)
