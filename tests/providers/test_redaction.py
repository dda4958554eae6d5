"""No answer of a partner holds a secret of ours behind the point where it enters, whatever its form was (S-10)."""

import asyncio
import base64
import json
import string
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, quote_plus, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from document_reading import answer_reader
from fairlead.document_readers import DocumentReaders
from fairlead.documents.redaction import Redactor
from fairlead.domain.pointers import MISSING
from fairlead.http_client.outcomes import Reply
from fairlead.providers.answers import AnswerDecoder, ReadReply, ReplyRedactor

pytestmark = pytest.mark.req("S-10")

_KEY = "sk-proj-Zx9+Qw/7=mK2~pL5_vB8.nT3"
_TEXTS = st.text(alphabet=st.characters(codec="ascii", categories=("L", "N", "P", "S")), min_size=12, max_size=80)
SECRETS = st.one_of(st.just(_KEY), _TEXTS, st.text(alphabet=string.hexdigits, min_size=16, max_size=40))

Form = Callable[[str], str]


def _escape(text: str) -> str:
    return json.dumps(text)[1:-1]


def _every_percent(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _every_escape(text: str) -> str:
    return "".join(f"\\u{ord(char):04x}" for char in text)


def _every_other(text: str) -> str:
    return "".join(f"%{ord(char):02x}" if number % 2 else char for number, char in enumerate(text))


def _basic(text: str) -> str:
    return base64.b64encode(f"user:{text}".encode()).decode()


_FORMS: dict[str, Form] = {
    "plain": str,
    "percent": lambda text: quote(text, safe=""),
    "percent, lower": lambda text: quote(text, safe="").replace("%2F", "%2f").replace("%2B", "%2b"),
    "percent, form": quote_plus,
    "percent, every": _every_percent,
    "percent, some": _every_other,
    "JSON": _escape,
    "JSON, every": _every_escape,
    "JSON, slashes": lambda text: _escape(text).replace("/", "\\/"),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, URL": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "Basic": _basic,
    "hexadecimal": lambda text: text.encode().hex(),
    "query": lambda text: "https://x.example/r?key=" + quote(text) + "&alt=media",
}


def _decodings(text: str) -> list[str]:
    """What a reader can make of a text who takes off percent signs, escapes and base64."""
    found = [text]
    for _ in range(3):
        found.append(unquote(found[-1]))
        try:
            found.append(json.loads(f'"{found[-1]}"'))
        except ValueError:
            found.append(found[-1].replace("\\/", "/").replace('\\"', '"').replace("\\\\", "\\"))
    return found


def _is_looked_for(forms: list[str]) -> bool:
    """Base64 of base64 is not looked for."""
    return sum(form in {"base64", "base64, URL", "Basic", "hexadecimal"} for form in forms) < 2


def _redact(secret: str, text: str) -> str:
    cleaned = Redactor([secret.encode()]).redact(text.encode())
    return "" if cleaned is None else cleaned.decode()


@given(
    secret=SECRETS,
    forms=st.lists(st.sampled_from(sorted(_FORMS)), min_size=1, max_size=2).filter(_is_looked_for),
    around=st.tuples(st.text('ab{}:," %\\/', max_size=20), st.text('ab{}:," %\\/', max_size=20)),
)
def test_no_form_of_a_secret_is_left(secret: str, forms: list[str], around: tuple[str, str]) -> None:
    """One form in another, with anything before and after it: no reader gets the secret out of what is left."""
    spelled = secret
    for form in forms:
        spelled = _FORMS[form](spelled)
    left = _redact(secret, around[0] + spelled + around[1])
    assert not any(secret in read for read in _decodings(left))
    assert _FORMS[forms[0]](secret) not in left


@given(secret=SECRETS, cut=st.integers(0, 80), length=st.integers(1, 80), around=st.text("xyz ", max_size=9))
def test_no_long_part_of_a_secret_is_left(secret: str, cut: int, length: int, around: str) -> None:
    """The first and last characters may name a key; half of it may not be told, and never sixteen characters."""
    part = secret[cut : cut + length]
    left = _redact(secret, around + part + "…" + around)
    bound = max(8, min(16, len(secret) // 2))
    for start in range(len(secret) - bound + 1):
        assert secret[start : start + bound] not in left
    if len(part) < min(4, bound) and part not in around:
        assert part in left


@given(text=st.text(max_size=300))
def test_text_without_the_secret_is_the_same_object(text: str) -> None:
    """What holds no secret is not copied, whatever escapes it has."""
    content = text.encode("utf-8", "surrogatepass")
    assert Redactor([_KEY.encode()]).redact(content) is content


@pytest.mark.parametrize("form", sorted(_FORMS))
def test_documents_stay_whole_and_as_long(form: str) -> None:
    """A JSON document with a secret in it is the same document with asterisks."""
    before = json.dumps({"error": {"message": f"bad key {_FORMS[form](_KEY)}!", "code": 7}})
    after = _redact(_KEY, before)
    assert len(after) == len(before)
    document = json.loads(after)
    assert document["error"]["message"].startswith("bad key ")
    assert document["error"]["code"] == 7
    assert "**" in document["error"]["message"]


_STEP: Final = 2**20


@pytest.mark.parametrize("place", [0, 1, _STEP - 20, _STEP - 1, _STEP, 2 * _STEP - 50])
def test_secret_in_large_content_is_found_wherever_it_lies(place: int) -> None:
    """Large content is searched in steps; a secret that lies across two is found too."""
    content = bytearray(b"x" * 2 * _STEP)
    spelled = quote(_KEY, safe="").encode()
    content[place : place + len(spelled)] = spelled
    assert Redactor([_KEY.encode()]).redact(bytes(content)) == bytes(content).replace(spelled, b"*" * len(spelled))


def _read(reply: Reply, values_max: int | None = None) -> ReadReply:
    async def read() -> ReadReply:
        async with answer_reader() as answers:
            return await answers.read("w", reply, ReplyRedactor([_KEY]), values_max)

    return asyncio.run(read())


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "video/mp4"])
@pytest.mark.parametrize("size", [100, 400_000])
def test_answers_of_any_size_and_type_are_redacted(content_type: str, size: int) -> None:
    """The server redacts a small answer itself, a process of its own a large one: nobody notices which."""
    padding = "x" * size
    content = json.dumps({"error": f"bad key {_KEY}", "more": padding}).encode()
    read = _read(Reply(400, {"content-type": content_type, "x-echo": _KEY}, content))
    assert read.content == content.replace(_KEY.encode(), b"*" * len(_KEY))
    assert (read.status, dict(read.headers)) == (400, {"content-type": content_type, "x-echo": "*" * len(_KEY)})
    if content_type == "application/json":
        assert read.document["error"] == "bad key " + "*" * len(_KEY)


def test_large_file_is_kept_and_redacted_while_no_process_can_read_it() -> None:
    """A film may have been paid for: of two that come at once to a single reader, neither is lost."""
    content = b"\0film" + _KEY.encode() + b"x" * 400_000
    reply = Reply(200, {"content-type": "video/mp4"}, content)

    async def read_both() -> list[ReadReply]:
        readers = DocumentReaders(1, lambda _: None, waiting_max=0, wait_seconds=0.0)
        answers = AnswerDecoder(readers)
        try:
            return await asyncio.gather(*(answers.read("w", reply, ReplyRedactor([_KEY])) for _ in range(2)))
        finally:
            await readers.close()

    for read in asyncio.run(read_both()):
        assert (read.status, read.content) == (200, content.replace(_KEY.encode(), b"*" * len(_KEY)))


@pytest.mark.req("S-02")
@pytest.mark.parametrize("size", [100, 400_000])
def test_answer_with_too_many_values_is_as_good_as_none(size: int) -> None:
    """Its values are counted before anything is made of them, and its headers are redacted all the same."""
    reply = Reply(200, {"content-type": "application/json", "x-echo": _KEY}, b"[" + b"0," * size + b"0]")
    read = _read(reply, values_max=50)
    assert (read.content, read.document, read.headers["x-echo"]) == (b"", MISSING, "*" * len(_KEY))
    assert len(_read(reply, values_max=2 * size).content) == len(reply.content)


def test_secret_that_cannot_be_removed_takes_a_large_answer_with_it() -> None:
    """The status is all that is left."""
    spelled = _KEY
    for _ in range(5):
        spelled = _every_percent(spelled)[: 2**19]
    reply = Reply(500, {"x": "y"}, spelled.encode() + b"x" * 400_000)
    assert _KEY not in "".join(_decodings(_read(reply).content.decode()))


def test_headers_are_redacted_and_an_innocent_answer_is_passed_on() -> None:
    """Header values pass the same way; an answer without a secret is the same object."""
    redactor = ReplyRedactor([_KEY])
    told = Reply(200, {"content-type": f"text/{_KEY}", "x-echo": base64.b64encode(_KEY.encode()).decode()}, b"{}")
    cleaned = redactor.clean(told)
    assert cleaned.headers["content-type"] == "text/" + "*" * len(_KEY)
    assert "*" * 40 in cleaned.headers["x-echo"]
    innocent = Reply(200, {"content-type": "application/json"}, b'{"a": "b\\u00e9%20"}')
    assert redactor.clean(innocent) is innocent
    plain = Reply(200, {"content-type": "application/json"}, b'{"a": "b"}')
    assert redactor.clean(plain) is plain


def test_secret_in_too_many_layers_takes_the_answer_with_it() -> None:
    """What cannot be taken out is not handed on: the status is all that is left."""
    spelled = _KEY
    for _ in range(3):
        spelled = _every_percent(spelled) if _ == 1 else _every_escape(spelled)
    cleaned = ReplyRedactor([_KEY]).clean(Reply(500, {"x": "y"}, spelled.encode()))
    assert _KEY not in "".join(_decodings(cleaned.content.decode()))


def test_redactor_shows_nothing() -> None:
    """Its own words hold no secret."""
    assert _KEY not in repr(ReplyRedactor([_KEY]))
