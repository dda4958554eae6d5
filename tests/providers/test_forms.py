"""Bodies as forms: files out of data URIs and links, everything else as fields, and nothing that breaks out of one."""

import asyncio
import base64
import email
import json
from collections.abc import Iterator
from email.message import Message
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.domain.faults import InvalidInput
from fairlead.domain.pointers import parse_pointer
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome, Reached
from fairlead.providers.answers import Accepted
from fairlead.providers.forms import FILES_MAX, UnusableFileError, write_form
from fairlead.providers.spec import Form, Part, Provider
from fairlead.providers.spec_files import load_provider
from fake_partner import SECRET, FakePartner, endless, provider_text, redirect, reply, running_partner
from providers.conftest import partner_client

_CALL: Final = """
[calls.edit]
protocol = "sync-json"
path = "/edits"
form = { files = [{ name = "image[]", at = "/image" }, { name = "image[]", at = "/image/*" }, \
{ name = "mask", at = "/mask/url" }] }
"""
_FORM: Final = Form((Part("image[]", parse_pointer("/image")), Part("image[]", parse_pointer("/image/*"))))
_PNG: Final = b"\x89PNG\r\n\x1a\n\0--boundary\r\n"


@pytest.fixture
def editor(partner: FakePartner) -> Provider:
    """Return the partner with a call that takes forms."""
    partner.script("/edits", reply())
    return load_provider(provider_text(partner.url, tail=_CALL), "fake.toml")


@pytest.fixture
def files() -> Iterator[FakePartner]:
    """Return a server of files somewhere else."""
    with running_partner() as running:
        yield running


def data_uri(content: bytes, media_type: str = "image/png") -> str:
    """Bytes as a data URI."""
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def parts_of(content_type: str, body: bytes) -> list[tuple[str, str | None, str, bytes]]:
    """The parts of a form as an independent reader finds them: name, file name, media type, content."""
    parsed: Message = email.message_from_bytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    found = []
    for part in parsed.get_payload():
        assert isinstance(part, Message)
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        found.append((str(name), part.get_filename(), part.get_content_type(), content))
    return found


def send_form(provider: Provider, document: Any, *trusted: str) -> Outcome | Accepted:
    """Send a body as a form."""

    async def send() -> Outcome | Accepted:
        async with partner_client(provider, trusted=trusted) as our:
            return await our.once("edit", json.dumps(document).encode())

    return asyncio.run(send())


def form_of(partner: FakePartner) -> list[tuple[str, str | None, str, bytes]]:
    """The parts of the one form that was sent."""
    (request,) = partner.requests("/edits")
    return parts_of(request.headers["content-type"], request.body)


async def _no_download(url: str) -> tuple[str, bytes]:
    raise UnusableFileError(f"nothing is downloaded here, {url} neither")


def test_data_uri_is_sent_as_a_file(editor: Provider, partner: FakePartner) -> None:
    """Data URIs become files with their media types, wherever they stand; scalars and containers become fields."""
    body = {
        "prompt": "a hät",
        "n": 2,
        "hd": True,
        "none": None,
        "tags": ["a", 1],
        "image": [data_uri(_PNG), data_uri(b"JFIF", "image/jpeg")],
        "mask": {"url": data_uri(b"mask", "image/webp")},
    }
    assert isinstance(send_form(editor, body), Completed)
    assert form_of(partner) == [
        ("prompt", None, "text/plain", "a hät".encode()),
        ("n", None, "text/plain", b"2"),
        ("hd", None, "text/plain", b"true"),
        ("tags", None, "text/plain", b'["a",1]'),
        ("image[]", "file.png", "image/png", _PNG),
        ("image[]", "file.jpg", "image/jpeg", b"JFIF"),
        ("mask", "file.webp", "image/webp", b"mask"),
    ]


def test_single_file_is_sent_where_many_may_stand(editor: Provider, partner: FakePartner) -> None:
    """One file where many may stand is sent under the same name."""
    send_form(editor, {"image": data_uri(b"one")})
    assert form_of(partner) == [("image[]", "file.png", "image/png", b"one")]


def test_form_may_be_without_files(editor: Provider, partner: FakePartner) -> None:
    """A body that names no file is a form all the same."""
    send_form(editor, {"prompt": "x"})
    assert form_of(partner) == [("prompt", None, "text/plain", b"x")]


def test_link_is_downloaded_without_our_credential(editor: Provider, partner: FakePartner, files: FakePartner) -> None:
    """A file behind a link is downloaded without our credential, and sent with the media type it came with."""
    files.script("/a.png", reply(200, b"picture", "image/png; x=y"))
    files.script("/b", reply(200, b"something", "text/html"))
    assert isinstance(send_form(editor, {"image": [f"{files.url}/a.png", f"{files.url}/b"]}, files.url), Completed)
    assert form_of(partner) == [
        ("image[]", "file.png", "image/png", b"picture"),
        ("image[]", "file.bin", "application/octet-stream", b"something"),
    ]
    for request in files.requests():
        assert SECRET not in str(request.headers)
        assert (request.method, request.headers.get("authorization"), request.headers.get("x-fixed")) == (
            "GET",
            None,
            None,
        )


@pytest.mark.parametrize(
    "link",
    ["{files}/a.png", "http://localhost:{port}/a.png", "http://[::1]:{port}/a.png", "HTTP://0.0.0.0:{port}/a.png"],
)
def test_private_address_is_never_read_through_a_form(
    editor: Provider, partner: FakePartner, files: FakePartner, link: str
) -> None:
    """A link of the caller's goes to public addresses only: nothing private is opened, nothing is sent on."""
    outcome = send_form(editor, {"image": link.format(files=files.url, port=files.url.rpartition(":")[2])})
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.fault, InvalidInput)
    assert outcome.fault.detail == "The file at /image cannot be used: the link cannot be read."
    assert outcome.reached is Reached.NOTHING
    assert (files.accepted, partner.requests()) == (0, [])


def test_redirect_of_a_download_is_refused(editor: Provider, partner: FakePartner, files: FakePartner) -> None:
    """A link that is answered with anything but a file is refused with what it answered."""
    files.script("/a", redirect("/b"))
    files.script("/b", reply(200, b"picture", "image/png"))
    outcome = send_form(editor, {"image": f"{files.url}/a"}, files.url)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.fault, InvalidInput)
    assert "the link answers 302" in outcome.fault.detail
    assert [request.path for request in files.requests()] == ["/a"]
    assert partner.requests() == []


def test_download_is_bounded(
    editor: Provider, partner: FakePartner, files: FakePartner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file larger than the bound is given up."""
    monkeypatch.setattr("fairlead.providers.exchange._FILE_MAX", 100_000)
    files.script("/a", endless())
    outcome = send_form(editor, {"image": f"{files.url}/a"}, files.url)
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.fault, InvalidInput)
    assert partner.requests() == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("data:image/png,plain", "must be base64"),
        ("data:image/png;base64", "must be base64"),
        ("data:image/png;base64,###", "base64 is broken"),
        ("ftp://files.example/a", "a data: URI or a link"),
        ("/etc/passwd", "a data: URI or a link"),
        ("", "a data: URI or a link"),
    ],
)
def test_text_that_is_no_file_is_refused_at_its_place(
    editor: Provider, partner: FakePartner, value: str, reason: str
) -> None:
    """What is not a file is the caller's mistake, told with its place; the partner is not asked."""
    outcome = send_form(editor, {"image": [data_uri(b"fine"), value]})
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.fault, InvalidInput)
    assert outcome.fault.detail.startswith("The file at /image/1 cannot be used: ")
    assert reason in outcome.fault.detail
    assert partner.requests() == []


def test_number_of_files_is_bounded(editor: Provider, partner: FakePartner) -> None:
    """Up to so many files are sent, and no more."""
    outcome = send_form(editor, {"image": [data_uri(b"x")] * (FILES_MAX + 1)})
    assert isinstance(outcome, Failed)
    assert partner.requests() == []
    assert isinstance(send_form(editor, {"image": [data_uri(b"x")] * FILES_MAX}), Completed)
    assert len(form_of(partner)) == FILES_MAX


@pytest.mark.parametrize(
    "media_type",
    ["image/png\r\nX-Evil: 1", "image/png\nX-Evil: 1", 'text/html"; x="', "", "image/png\r\n\r\nbody", "IMAGE/PNG"],
)
def test_unknown_media_type_is_sent_as_plain_bytes(editor: Provider, partner: FakePartner, media_type: str) -> None:
    """Only media types we know are written; any other is plain bytes."""
    send_form(editor, {"image": data_uri(b"x", media_type)})
    ((name, _, written, content),) = form_of(partner)
    assert (name, content) == ("image[]", b"x")
    assert written == ("image/png" if media_type == "IMAGE/PNG" else "application/octet-stream")
    assert b"X-Evil" not in partner.requests("/edits")[0].body


@given(
    st.dictionaries(
        st.text(max_size=20) | st.sampled_from(['a"; filename="x', "a\r\nX: y", "a\r\n\r\nb", "--", 'image"']),
        st.text(max_size=20) | st.integers() | st.booleans(),
        max_size=4,
    )
)
def test_field_cannot_break_out_of_its_form(document: dict[str, Any]) -> None:
    """Whatever fields are called and say, the form has as many parts as the body fields, and no header of theirs."""
    document.pop("image", None)
    written = asyncio.run(write_form(_FORM, json.dumps(document).encode(), _no_download))
    assert not isinstance(written, Failed)
    content_type, body = written
    boundary = content_type.partition("boundary=")[2].encode()
    pieces = body.split(b"--" + boundary)
    assert (pieces[0], pieces[-1], len(pieces)) == (b"", b"--\r\n", len(document) + 2)
    for piece in pieces[1:-1]:
        head = piece.partition(b"\r\n\r\n")[0].removeprefix(b"\r\n")
        assert b"\r" not in head
        assert b"\n" not in head
        assert head.startswith(b'Content-Disposition: form-data; name="')
        assert head.count(b'"') == 2
