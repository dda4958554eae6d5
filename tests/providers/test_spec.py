"""Provider files: what is written well loads, and every mistake is told with its file, its line and its reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from fairlead.domain.declarations import BadFileError
from fairlead.providers.spec import Auth, Meaning, Protocol, Scheme
from fairlead.providers.spec_files import SPECS, load_provider, load_providers
from fake_partner import provider_text

_GOOD: Final = provider_text("http://127.0.0.1:9")


def _line(fragment: str, text: str) -> int:
    """The line of a text that holds a fragment, counted from 1."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if fragment in line)


def _without(fragment: str) -> str:
    return "\n".join(line for line in _GOOD.splitlines() if fragment not in line)


def test_good_file_is_loaded() -> None:
    """The file of the fake partner loads, with its calls in their shapes and its signs in order."""
    provider = load_provider(_GOOD, "fake.toml")
    assert provider.name == "fake"
    assert provider.auth == Auth(Scheme.HEADER, ("Authorization",), "Bearer ")
    assert {name: call.protocol for name, call in provider.calls.items()} == {
        "json": Protocol.SYNC_JSON,
        "picky": Protocol.SYNC_JSON,
        "hasty": Protocol.SYNC_JSON,
        "bytes": Protocol.SYNC_BYTES,
        "task": Protocol.SUBMIT_AND_POLL,
    }
    assert [sign.means for sign in provider.signs[:3]] == [Meaning.REFUSED, Meaning.INVALID, Meaning.TIMEOUT]
    assert provider.calls["json"].answer_limit == 1024 * 1024


def test_every_file_of_ours_loads() -> None:
    """Every provider file in the package is usable, and the built-in partner is among them."""
    assert "local" in load_providers(SPECS)


def test_provider_can_be_moved_to_another_address() -> None:
    """`at` moves a provider, and a slash at the end is not doubled."""
    moved = load_provider(_GOOD, "fake.toml").at("https://elsewhere.example/api/")
    assert moved.base_url == "https://elsewhere.example/api"
    assert moved.calls == load_provider(_GOOD, "fake.toml").calls


def test_header_scheme_has_its_own_prefix() -> None:
    """A partner with a header of its own gets its own prefix, or none."""
    text = _GOOD.replace('scheme = "bearer"', 'scheme = "header"\nheader = "X-Token"\nprefix = "Key "')
    assert load_provider(text, "fake.toml").auth == Auth(Scheme.HEADER, ("X-Token",), "Key ")


def test_partner_without_credentials_wants_none() -> None:
    """The scheme `none` wants none."""
    assert not load_provider(_GOOD.replace('"bearer"', '"none"'), "fake.toml").wants_credential
    assert load_provider(_GOOD, "fake.toml").wants_credential


def _replace(old: str, new: str) -> Callable[[], str]:
    return lambda: _GOOD.replace(old, new, 1)


_MISTAKES: Final = [
    pytest.param(_replace('provider = "fake"', 'provider = "Fake"'), ("provider = ", "not a provider name"), id="name"),
    pytest.param(
        _replace('provider = "fake"', "provider = 7"), ("provider = ", "Expected `str`, got `int`"), id="type"
    ),
    pytest.param(_replace("base_url", "base_uri"), ("base_uri", "unknown field `base_uri`"), id="unknown"),
    pytest.param(_replace("http://127.0.0.1:9", "ftp://x"), ("base_url", "matching regex"), id="address"),
    pytest.param(_replace('"bearer"', '"digest"'), ("scheme", "Invalid enum value 'digest'"), id="scheme"),
    pytest.param(_replace("timeout = 600", "timeout = 0"), ("timeout = 0", "> 0"), id="no time"),
    pytest.param(_replace("timeout = 600", "timeout = 86401"), ("timeout = 86401", "<= 86400"), id="too much time"),
    pytest.param(_replace("timeout = 600", "timeuot = 600"), ("timeuot", "unknown field `timeuot`"), id="typo"),
    pytest.param(_replace("answer_limit_mib = 1", "answer_limit_mib = 0"), ("answer_limit_mib", ">= 1"), id="no room"),
    pytest.param(_replace('"sync-json"', '"sync-xml"'), ("sync-xml", "Invalid enum value"), id="protocol"),
    pytest.param(_replace('path = "/json"', 'path = "json"'), ('path = "json"', "matching regex"), id="path"),
    pytest.param(_replace('path = "/json"', 'path = "/json#1"'), ('path = "/json#', "matching regex"), id="fragment"),
    pytest.param(_replace('["/ok"]', '["ok"]'), ("require", "matching regex"), id="pointer"),
    pytest.param(_replace('handle = "/id"\n', ""), ("[calls.task]", "needs a 'handle'"), id="no handle"),
    pytest.param(
        _replace('path = "/json"', 'path = "/json"\nhandle = "/id"'), ("[calls.json]", "neither 'handle'"), id="handle"
    ),
    pytest.param(
        _replace('path = "/json"', 'path = "/json"\nmedia_types = ["image/png"]'),
        ("[calls.json]", "'media_types' belongs"),
        id="media types of JSON",
    ),
    pytest.param(
        _replace('media_types = ["audio/wav", "image/png"]\n', ""),
        ("[calls.bytes]", "'media_types' belongs"),
        id="bytes of no type",
    ),
    pytest.param(
        _replace('path = "/tasks/{handle}"', 'path = "/tasks/all"'),
        ("/tasks/all", "nothing of the handle"),
        id="blind",
    ),
    pytest.param(_replace("patience = 2", "patience = -1"), ("patience", ">= 0"), id="patience"),
    pytest.param(_replace('succeeded = ["done"]', "succeeded = []"), ("succeeded", "length >= 1"), id="no success"),
    pytest.param(
        _replace('when = [{ at = "/error/code", equals = ["refused"] }]\n', ""),
        ("[[signs]]", "always holds"),
        id="always",
    ),
    pytest.param(_replace("status = [200]", "status = [99]"), ("status = [99]", ">= 100"), id="status"),
    pytest.param(_replace('means = "refused"', 'means = "naughty"'), ("naughty", "Invalid enum value"), id="meaning"),
    pytest.param(_replace("[auth]", "[auth"), ("[auth", "Expected"), id="syntax"),
]


@pytest.mark.parametrize(("make", "told"), _MISTAKES)
def test_mistake_is_told_with_its_line_and_reason(make: Callable[[], str], told: tuple[str, str]) -> None:
    """A bad file is refused with its name, the line of the mistake and what is wrong there."""
    text = make()
    fragment, reason = told
    with pytest.raises(BadFileError) as caught:
        load_provider(text, "fake.toml")
    assert (caught.value.file, caught.value.line) == ("fake.toml", _line(fragment, text)), str(caught.value)
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"fake.toml:{caught.value.line}: ")


@pytest.mark.parametrize("missing", ["provider =", "title =", "base_url =", "scheme =", 'protocol = "sync-bytes"'])
def test_missing_field_is_named(missing: str) -> None:
    """What every provider has to say is asked for by name."""
    with pytest.raises(BadFileError, match=f"missing required field `{missing.partition(' ')[0]}`"):
        load_provider(_without(missing), "fake.toml")


def test_file_without_calls_is_refused() -> None:
    """A partner that can do nothing is a mistake."""
    text = 'provider = "idle"\ntitle = "Idle"\nbase_url = "http://x"\ncalls = {}\n[auth]\nscheme = "none"\n'
    with pytest.raises(BadFileError, match=r"^idle\.toml:4: calls: .*length >= 1"):
        load_provider(text, "idle.toml")


def test_provider_declared_twice_is_refused(tmp_path: Path) -> None:
    """The second file that names a provider is refused."""
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text(_GOOD)
    with pytest.raises(BadFileError, match=r"^b\.toml:1: the provider 'fake' is declared twice"):
        load_providers(tmp_path)


def test_file_in_another_encoding_is_a_mistake(tmp_path: Path) -> None:
    """A file that is not UTF-8 is a mistake like any other."""
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe9t\xe9"')
    with pytest.raises(BadFileError, match=r"^latin\.toml:1: cannot be read"):
        load_providers(tmp_path)


@pytest.mark.req("R-20")
def test_refusal_subject_outside_the_vocabulary_is_refused() -> None:
    """A subject outside the closed vocabulary is refused when the file is loaded."""
    text = _GOOD.replace('picture = "output_image"', 'picture = "the picture itself"')
    with pytest.raises(BadFileError, match=rf"fake.toml:{_line('the picture itself', text)}: .*not a refusal subject"):
        load_provider(text, "fake.toml")
