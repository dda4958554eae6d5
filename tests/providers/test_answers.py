"""Large answers of partners, read by a process: every reader of an answer finds in them what it would find (S-02)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import pytest

from document_reading import answer_reader
from fairlead.domain.faults import ContentPolicyViolation
from fairlead.domain.pointers import MISSING
from fairlead.domain.runs.outcomes import Completed, Failed
from fairlead.http_client.outcomes import Reply
from fairlead.providers.answers import Accepted, AnswerDecoder, ReadReply, classify_answer, read_here
from fairlead.providers.spec_files import load_provider

T = TypeVar("T")

_TEXT: Final = 'é\\"\n😀x' * 60_000
_PROVIDER: Final = load_provider(
    """
provider = "partner"
title = "A partner"
base_url = "https://partner.example"

[auth]
scheme = "none"

[calls.now]
protocol = "sync-json"
path = "/now"
require = ["/data"]
assets = ["/links/*"]

[calls.later]
protocol = "submit-and-poll"
path = "/later"
handle = "/id"

[calls.later.poll]
path = "/later/{handle}"
every = 1
status = "/status"
pending = ["running"]
succeeded = ["done"]

[[signs]]
means = "refused"
when = [{ at = "/error/message", contains = ["content policy"] }]

[[signs]]
means = "invalid"
status = [400]
reason = "/error/message"
""",
    "partner.toml",
)


def with_reader(work: Callable[[AnswerDecoder], Awaitable[T]]) -> T:
    """Do work with a reader that has a process of its own."""

    async def do() -> T:
        async with answer_reader() as answers:
            return await work(answers)

    return asyncio.run(do())


def read(*documents: Any, status: int = 200) -> list[ReadReply]:
    """Read some answers, each a document or bytes."""
    headers = {"content-type": "application/json"}
    contents = [one if isinstance(one, bytes) else json.dumps(one, ensure_ascii=False).encode() for one in documents]

    async def work(answers: AnswerDecoder) -> list[ReadReply]:
        return [await answers.read("workspace", Reply(status, headers, content)) for content in contents]

    return with_reader(work)


@pytest.mark.req("S-02")
def test_large_answer_says_what_it_says_when_it_is_read_here() -> None:
    """Short texts, links and numbers are there, long texts have their length and their beginning."""
    link = "HTTPS://cdn.example/" + "a" * 20_000
    document = {"data": [{"b64": _TEXT, "url": link}], "used": 2, "x": 1.5, "none": None, "list": ["a", "y" * 9_000]}
    (found,) = read(document)
    assert found.large is not None
    here = read_here(found).document
    assert here == document
    (item,) = found.document["data"]
    assert (type(item["url"]), item["url"], len(item["b64"])) == (str, link, len(_TEXT))
    assert [item["b64"][:size] for size in range(40)] == [_TEXT[:size] for size in range(40)]
    assert {name: found.document[name] for name in ("used", "x", "none")} == {"used": 2, "x": 1.5, "none": None}
    assert found.large.fill(found.large.outline) == found.content


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    "content",
    [b'{"a":"' + b"x" * 300_000, b'{"a":"' + b"x" * 300_000 + b'","n":NaN}', b"\xff" * 300_000],
    ids=["broken off", "no number", "no text"],
)
def test_large_answer_that_is_no_json_is_no_document(content: bytes) -> None:
    """It is handed on as it came, and has nothing to be found in it."""
    (found,) = read(content)
    assert (found.document, found.content, found.large) == (MISSING, content, None)


@pytest.mark.req("S-02")
def test_answer_that_is_large_without_long_texts_is_as_good_as_none() -> None:
    """Many short texts stay in the outline as far as there is room; one number of two thousand digits never does."""
    many, too_many, number = (
        {"data": ["y" * 2_000] * 3_000},
        {"data": ["y" * 500] * 10_000},
        b'{"data":' + b"9" * 2_000 + b',"more":"' + b"x" * 300_000 + b'"}',
    )
    fits, *others = read(many, too_many, number)
    assert ([text[:3] for text in fits.document["data"]], len(fits.document["data"][0])) == (["yyy"] * 3_000, 2_000)
    assert [(other.status, other.document, other.content) for other in others] == [(200, MISSING, b"")] * 2


@pytest.mark.req("S-02", "R-20")
def test_signs_are_found_at_the_beginning_of_long_words() -> None:
    """A message that repeats a large body is a refusal by its words, and is told with as few of them as any."""
    refused, invalid = (
        read({"error": {"message": f"{words} {_TEXT}"}}, status=400)[0] for words in ("Our Content Policy", "Too long:")
    )
    refusal = classify_answer(_PROVIDER, _PROVIDER.calls["now"], refused)
    assert isinstance(refusal, Failed)
    assert isinstance(refusal.fault, ContentPolicyViolation)
    told = classify_answer(_PROVIDER, _PROVIDER.calls["now"], invalid)
    assert told == classify_answer(_PROVIDER, _PROVIDER.calls["now"], read_here(invalid))


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    ("call", "document"),
    [
        ("now", {"data": _TEXT, "links": ["https://a.example/b", None]}),
        ("now", {"data": _TEXT, "links": [_TEXT]}),
        ("now", {"more": _TEXT}),
        ("later", {"id": _TEXT}),
        ("later", {"id": "task-7", "more": _TEXT}),
    ],
    ids=["result", "no link", "no result", "no handle", "handle"],
)
def test_large_answer_is_classified_as_any_other(call: str, document: Any) -> None:
    """Results, handles and what is neither are told apart as in an answer that is decoded whole."""
    (found,) = read(document)
    reading = classify_answer(_PROVIDER, _PROVIDER.calls[call], found)
    expected = classify_answer(_PROVIDER, _PROVIDER.calls[call], read_here(found))
    if isinstance(expected, Completed):
        assert isinstance(reading, Completed)
        assert (reading.content, reading.large) == (expected.content, found.large)
    else:
        assert isinstance(expected, Failed | Accepted)
        assert reading == expected
