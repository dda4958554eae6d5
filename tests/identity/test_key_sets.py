"""Where keys come from: a file that changes, and an issuer's server that is slow, down, moved or lying."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fairlead.identity import key_sets
from fairlead.identity.key_sets import KeyFile, KeySetError, KeysUnavailableError, KeyUrl, read_key_set
from fairlead.identity.tokens import InvalidTokenError, TokenVerifier
from identity.conftest import trust_issuer
from waiting import until

NOW = 1_800_000_000


@asynccontextmanager
async def open_keys(issuer: Any, clock: Any, **options: Any) -> AsyncIterator[KeyUrl]:
    """Return the keys of a server, by the test's clock, and close them."""
    source = KeyUrl(issuer.url, now=clock, **options)
    try:
        yield source
    finally:
        await source.close()


def run(issuer: Any, clock: Any, steps: Callable[[KeyUrl], Awaitable[None]], **options: Any) -> None:
    """Take some steps with the keys of a server."""

    async def _run() -> None:
        async with open_keys(issuer, clock, **options) as source:
            await steps(source)

    asyncio.run(_run())


async def find_keys(source: Any, kid: str | None = "one", algorithm: str = "RS256") -> list[str | None]:
    """Name the keys that are found."""
    return [key.kid for key in await source.find(algorithm, kid)]


async def judge(verifier: TokenVerifier, token: str) -> str:
    """Say what becomes of a token."""
    try:
        await verifier.verify(token)
    except InvalidTokenError as error:
        return str(error)
    except KeysUnavailableError:
        return "unavailable"
    return "good"


def names(*entries: dict[str, Any]) -> list[str | None]:
    """Name the keys that are read from a set."""
    return [key.kid for key in read_key_set(json.dumps({"keys": entries}).encode())]


def test_key_that_is_not_for_us_is_left_out(keys: Any, entry: Any) -> None:
    """Weak keys, private keys and keys for other uses, algorithms and curves are left out; good ones are not."""
    private = {"d": "AAAA"}
    assert names(
        entry(keys.rsa, "plain", use=None),
        entry(keys.ec, "elliptic", alg="ES256"),
        entry(keys.rsa, "exact", alg="RS256", x5c=["ignored"]),
        entry(keys.rsa, None),
        entry(keys.short_rsa, "short"),
        entry(keys.strange_ec, "curve"),
        entry(keys.rsa, "use", use="enc"),
        entry(keys.rsa, "algorithm", alg="RS512"),
        entry(keys.rsa, "confused", alg="HS256"),
        entry(keys.ec, "other algorithm", alg="RS256"),
        entry(keys.rsa, "private", **private),
        entry(keys.rsa, 5),
        {"kty": "oct", "k": "AAAA" * 20, "kid": "secret"},
    ) == ["plain", "elliptic", "exact", None]


@pytest.mark.parametrize(
    "strange",
    [
        None,
        [],
        "key",
        {},
        {"kty": ["RSA"]},
        {"kty": "RSA", "n": 5, "e": "AQAB"},
        {"kty": "RSA", "n": "", "e": ""},
        {"kty": "RSA", "n": "é", "e": "AQAB"},
        {"kty": "RSA", "n": "A", "e": "A"},
        {"kty": "RSA", "n": "_" * 4000, "e": "AQAB"},
        {"kty": "RSA", "n": "_" * 342, "e": "AQ"},
        {"kty": "EC", "crv": "P-256", "x": "A" * 43, "y": "A" * 43},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
    ],
    ids=lambda value: str(value)[:40],
)
def test_malformed_key_is_left_out(keys: Any, entry: Any, strange: Any) -> None:
    """A key of which no key can be made is left out, and the others stay."""
    assert names(strange, entry(keys.rsa)) == ["one"]


def test_set_has_at_most_a_hundred_keys(keys: Any, entry: Any) -> None:
    """A set has at most a hundred keys; without any it is still a set."""
    assert names() == []
    assert len(names(*[entry(keys.rsa)] * 100)) == 100
    with pytest.raises(KeySetError, match="more than 100 keys"):
        names(*[entry(keys.rsa)] * 101)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": null}', b"\xff", b'{"keys":[],"keys":[]}']
)
def test_garbage_is_no_key_set(text: bytes) -> None:
    """A set is a JSON object with a list of keys."""
    with pytest.raises(KeySetError):
        read_key_set(text)


def test_token_without_a_key_name_costs_at_most_four_verifications(keys: Any, entry: Any) -> None:
    """A token that names no key costs at most four verifications."""
    read = read_key_set(json.dumps({"keys": [entry(keys.rsa, str(number)) for number in range(9)]}).encode())
    assert [key.kid for key in key_sets.candidates(read, "RS256", None)] == ["0", "1", "2", "3"]
    assert [key.kid for key in key_sets.candidates(read, "RS256", "8")] == ["8"]
    assert key_sets.candidates(read, "ES256", None) == ()


def test_changed_file_is_noticed(tmp_path: Path, keys: Any, entry: Any) -> None:
    """A key file is read again when it changes, and only then."""
    path = tmp_path / "keys.json"
    source = KeyFile(path)
    path.write_text(json.dumps({"keys": [entry(keys.rsa)]}))
    assert asyncio.run(find_keys(source)) == ["one"]
    first = asyncio.run(source.find("RS256", "one"))
    assert asyncio.run(source.find("RS256", "one"))[0] is first[0]
    path.write_text(json.dumps({"keys": [entry(keys.other_rsa, "two")]}))
    os.utime(path, ns=(NOW, NOW))
    assert asyncio.run(find_keys(source)) == []
    assert asyncio.run(find_keys(source, "two")) == ["two"]


def test_broken_file_makes_tokens_unverifiable(tmp_path: Path, keys: Any, entry: Any) -> None:
    """A file that is missing, broken or too large makes tokens unverifiable until it is mended."""
    path = tmp_path / "keys.json"
    source = KeyFile(path)
    good = json.dumps({"keys": [entry(keys.rsa)]})
    for bad in (None, "{", good.ljust(256 * 1024 + 1)):
        path.unlink(missing_ok=True)
        if bad is not None:
            path.write_text(bad)
        for _ in range(2):
            with pytest.raises(KeysUnavailableError):
                asyncio.run(find_keys(source))
        path.write_text(good)
        os.utime(path, ns=(NOW, NOW))
        assert asyncio.run(find_keys(source)) == ["one"]
    asyncio.run(source.close())


@pytest.mark.parametrize("url", ["", "keys.json", "file:///etc/passwd", "ftp://x.example/", "http://", "https:///keys"])
def test_address_that_is_not_http_is_refused(url: str) -> None:
    """Keys are fetched by http and https."""
    with pytest.raises(ValueError, match="http"):
        KeyUrl(url)


def test_keys_are_kept_for_five_minutes(issuer: Any, clock: Any) -> None:
    """Keys are kept for five minutes."""

    async def _steps(source: KeyUrl) -> None:
        assert issuer.requests == 0
        requests = []
        for later in (0, 299, 300, 599, 600):
            clock.time = NOW + later
            assert await find_keys(source) == ["one"]
            requests.append(issuer.requests)
        assert requests == [1, 1, 2, 2, 3]
        assert source.failure is None

    run(issuer, clock, _steps)


def test_unknown_key_name_costs_one_fetch_in_ten_seconds(issuer: Any, clock: Any) -> None:
    """Unknown names cost one fetch in ten seconds, and none by a caller who has just waited for one."""

    async def _steps(source: KeyUrl) -> None:
        requests = []
        for later in (0, 1, 2, 10.9, 11, 12):
            clock.time = NOW + later
            assert await find_keys(source, "forged") == []
            assert await find_keys(source, f"forged {later}") == []
            requests.append(issuer.requests)
        assert requests == [2, 2, 2, 3, 3, 3]

    run(issuer, clock, _steps)


def test_token_without_a_key_name_costs_no_fetch(issuer: Any, clock: Any) -> None:
    """Only a name can be unknown."""

    async def _steps(source: KeyUrl) -> None:
        for _ in range(3):
            assert await find_keys(source, None, "ES256") == []
        assert issuer.requests == 1

    run(issuer, clock, _steps)


@pytest.mark.req("R-37")
def test_rotated_key_is_accepted(issuer: Any, clock: Any, keys: Any, entry: Any, sign: Any) -> None:
    """A token signed with a key that is newer than the kept set is accepted, and the withdrawn key is refused."""

    async def _steps(source: KeyUrl) -> None:
        verifier = TokenVerifier(trust_issuer(source), now=clock)
        assert await judge(verifier, sign(keys.rsa)) == "good"
        issuer.publish(entry(keys.other_rsa, "new"))
        assert await judge(verifier, sign(keys.other_rsa, header={"kid": "new"})) == "good"
        assert await judge(verifier, sign(keys.rsa, sub="bob")) == "the key is unknown"
        assert issuer.requests == 2

    run(issuer, clock, _steps)


@pytest.mark.req("R-37", "R-38")
def test_foreign_key_of_the_same_name_is_refused(issuer: Any, clock: Any, keys: Any, sign: Any) -> None:
    """A wrong signature under a known name is refused, and costs the issuer nothing."""

    async def _steps(source: KeyUrl) -> None:
        verifier = TokenVerifier(trust_issuer(source), now=clock)
        for _ in range(3):
            assert await judge(verifier, sign(keys.other_rsa)) == "the signature is wrong"
        assert issuer.requests == 1
        await verifier.close()

    run(issuer, clock, _steps)


def test_concurrent_callers_share_a_fetch(issuer: Any, clock: Any) -> None:
    """Callers who come while keys are fetched wait for that fetch, with known and unknown names."""
    issuer.answers.clear()

    async def _steps(source: KeyUrl) -> None:
        asked = asyncio.gather(*(find_keys(source, kid) for kid in ["one", "forged"] * 10))
        await until(lambda: issuer.requests)
        issuer.answers.set()
        answers = await asked
        assert answers == [["one"], []] * 10
        assert issuer.requests == 1

    run(issuer, clock, _steps)


def test_fetch_goes_on_when_its_caller_leaves(issuer: Any, clock: Any) -> None:
    """The fetch goes on for the others when the one who began it is gone."""
    issuer.answers.clear()

    async def _steps(source: KeyUrl) -> None:
        first, second = asyncio.create_task(find_keys(source)), asyncio.create_task(find_keys(source))
        await until(lambda: issuer.requests)
        first.cancel()
        issuer.answers.set()
        assert await second == ["one"]
        assert first.cancelled()
        assert issuer.requests == 1

    run(issuer, clock, _steps)


def test_closing_ends_a_slow_fetch(issuer: Any, clock: Any) -> None:
    """Closing ends a running fetch; who waits for it is told."""
    issuer.answers.clear()

    async def _steps(source: KeyUrl) -> None:
        waiting = asyncio.create_task(find_keys(source))
        await until(lambda: issuer.requests)
        await source.close()
        await asyncio.wait((waiting,))
        assert waiting.cancelled()

    run(issuer, clock, _steps)


@pytest.mark.req("R-37", "R-38")
def test_kept_keys_are_good_for_an_hour_while_the_issuer_is_down(issuer: Any, clock: Any, keys: Any, sign: Any) -> None:
    """Kept keys are good for an hour past their age; after that no token can be judged."""

    async def _steps(source: KeyUrl) -> None:
        verifier = TokenVerifier(trust_issuer(source), now=clock)
        tokens = [sign(keys.rsa, exp=NOW + 9999, jti=str(number)) for number in range(3)]
        assert await judge(verifier, tokens[0]) == "good"
        issuer.close()
        clock.time = NOW + 3899
        assert await judge(verifier, tokens[1]) == "good"
        assert source.failure == "UnreachableError"
        assert await judge(verifier, sign(keys.other_rsa, exp=NOW + 9999)) == "the signature is wrong"
        clock.time = NOW + 3900
        assert await judge(verifier, tokens[2]) == "unavailable"

    run(issuer, clock, _steps)


@pytest.mark.req("R-38")
def test_forged_key_name_is_unknown_while_the_issuer_is_down(issuer: Any, clock: Any) -> None:
    """As long as there are keys to use, a name that is not among them is unknown."""

    async def _steps(source: KeyUrl) -> None:
        assert await find_keys(source) == ["one"]
        issuer.status = 500
        for _ in range(3):
            assert await find_keys(source, "forged") == []
        assert issuer.requests == 2

    run(issuer, clock, _steps)


def test_issuer_that_is_down_is_asked_once_a_second(issuer: Any, clock: Any) -> None:
    """Without keys the issuer is asked once a second, and as soon as it answers all is well."""
    issuer.status = 503

    async def _steps(source: KeyUrl) -> None:
        requests = []
        for later in (0, 0.9, 1, 1.9):
            clock.time = NOW + later
            with pytest.raises(KeysUnavailableError, match="status 503"):
                await find_keys(source)
            requests.append(issuer.requests)
        assert requests == [1, 1, 2, 2]
        issuer.status = 200
        clock.time = NOW + 2
        assert await find_keys(source) == ["one"]
        assert source.failure is None

    run(issuer, clock, _steps)


def test_failing_issuer_is_asked_once_in_ten_seconds(issuer: Any, clock: Any) -> None:
    """A failing issuer is asked once in ten seconds while there are keys to use."""

    async def _steps(source: KeyUrl) -> None:
        await find_keys(source)
        issuer.status = 500
        requests = []
        for later in (300, 309.9, 310, 319.9):
            clock.time = NOW + later
            assert await find_keys(source) == ["one"]
            await until(lambda: source._fetching is None)  # later fetches are in the background
            requests.append(issuer.requests)
        assert requests == [2, 2, 3, 3]

    run(issuer, clock, _steps)


def test_hanging_issuer_is_asked_in_the_background(issuer: Any, clock: Any) -> None:
    """An issuer that failed is asked in the background, and its answer is used when it comes."""

    async def _steps(source: KeyUrl) -> None:
        await find_keys(source)
        issuer.status = 500
        clock.time = NOW + 300
        await find_keys(source)
        issuer.status = 200
        issuer.answers.clear()
        issuer.publish()
        clock.time = NOW + 310
        assert await find_keys(source) == ["one"]
        waiting = asyncio.create_task(find_keys(source, "new"))  # for the fetch under way
        await until(lambda: issuer.requests == 3)
        assert not waiting.done()
        issuer.answers.set()
        assert await waiting == []
        assert await find_keys(source) == []

    run(issuer, clock, _steps)


def test_fetch_of_keys_has_a_time_limit(issuer: Any, clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fetch has a time limit over all."""
    monkeypatch.setattr(key_sets, "_FETCH_SECONDS", 0.5)
    issuer.answers.clear()

    async def _steps(source: KeyUrl) -> None:
        with pytest.raises(KeysUnavailableError, match="TooSlowError"):
            await find_keys(source)

    run(issuer, clock, _steps)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, b'{"keys":[]}'.ljust(256 * 1024 + 1), {}), "larger than 262144 bytes"),
        ((200, b"x" * 3_000_000, {}), "BrokenOffError"),
        ((200, b"x" * 3_000_000, {"content-length": "9000000"}), "BrokenOffError"),
        ((302, b"", {"location": "/elsewhere"}), "status 302"),
        ((307, b'{"keys":[]}', {"location": "http://127.0.0.1:1/"}), "status 307"),
        ((204, b"", {}), "status 204"),
        ((404, b'{"keys":[]}', {}), "status 404"),
        ((200, b"<html>", {}), "not JSON"),
        ((200, b"[]", {}), "no list of keys"),
        ((200, b"cut", {"content-length": "500"}), "BrokenOffError"),
        ((200, b"no gzip", {"content-encoding": "gzip"}), "Error"),
        ((200, b"x", {"content-length": "many"}), "Error"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_answer_that_is_no_key_set_is_refused(
    issuer: Any, clock: Any, answer: tuple[int, bytes, dict[str, str]], reason: str
) -> None:
    """Too much, a redirection, an error or garbage: no keys, one request, and no other address asked."""
    issuer.status, issuer.body, issuer.headers = answer

    async def _steps(source: KeyUrl) -> None:
        with pytest.raises(KeysUnavailableError, match=reason):
            await find_keys(source)
        assert issuer.requests == 1

    run(issuer, clock, _steps)


def test_password_in_an_address_is_never_logged(issuer: Any, clock: Any) -> None:
    """Neither the failure nor the error repeats the address."""
    url = issuer.url.replace("http://", "http://us:opensesame@")
    issuer.close()

    async def _steps() -> None:
        source = KeyUrl(url, now=clock)
        with pytest.raises(KeysUnavailableError) as caught:
            await find_keys(source)
        assert "opensesame" not in f"{caught.value} {source.failure}"
        await source.close()

    asyncio.run(_steps())
