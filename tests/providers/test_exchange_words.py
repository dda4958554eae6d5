"""The words of a provider file at the socket: paths, bodies, handles of parts, and where answers may send us."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest
from msgspec.structs import replace

from fairlead.domain.faults import InvalidInput, ProviderError, ServiceUnavailable, Upstream
from fairlead.domain.runs.outcomes import Completed, Failed, Outcome, Reached, Work
from fairlead.providers.answers import Accepted
from fairlead.providers.credentials import Secret
from fairlead.providers.request_signatures import OutgoingRequest, tc3_headers
from fairlead.providers.spec import Auth, Provider, Scheme
from fairlead.providers.spec_files import load_provider
from fake_partner import SECRET, FakePartner, port_of, reply, reply_json, running_partner
from providers.conftest import OURS, partner_client

_FILE: Final = """\
provider = "odd"
title = "A partner with odd habits"
base_url = "{url}/base"
hosts = ["127.0.0.1", "*.polls.example"]
asset_hosts = ["files.example"]

[auth]
scheme = "bearer"

[headers]
X-Fixed = "always"

[retry]
times = 0

[calls.array]
protocol = "sync-json"
path = "/array"
in_array = true

[calls.named]
protocol = "sync-bytes"
path = "/v1/{{model}}/run?a=b"
media_types = ["audio/mpeg"]
headers = {{ X-Extra = "one", X-Fixed = "differs" }}
accept = "audio/mpeg"

[calls.posted]
protocol = "submit-and-poll"
path = "/posted"
handle = "/name"

[calls.posted.poll]
path = "/{{model}}:fetch"
method = "POST"
body = {{ operationName = "{{handle}}", of = ["{{model}}"], count = 1 }}
every = 0.01
status = "/done"
pending = ["false", "absent"]
succeeded = ["true"]

[calls.linked]
protocol = "submit-and-poll"
path = "/linked"
handle = {{ id = "/id", status = "/urls/status", result = "/urls/result" }}

[calls.linked.poll]
path = "{{status}}"
every = 0.01
patience = 1
status = "/status"
pending = ["running"]
succeeded = ["done"]
failed = ["failed"]
pending_status = [202]
result = {{ path = "{{result}}" }}

[calls.early]
protocol = "submit-and-poll"
path = "/early"
handle = {{ id = "/id", url = "/polling_url" }}

[calls.early.poll]
path = "{{url}}"
otherwise = "/results?id={{id}}"
every = 0.01
patience = 2
status = "/status"
succeeded = ["done"]
failed = ["unknown"]
retried_status = [404]

[calls.split]
protocol = "submit-and-poll"
path = "/split"
handle = {{ id = "/id", kind = "/kind" }}

[calls.split.poll]
path = "/{{kind}}/{{id}}"
every = 0.01
status = "/status"
succeeded = ["done"]
result = {{ path = "/results", method = "POST", body = {{ id = "{{id}}" }} }}

[calls.actions]
protocol = "submit-and-poll"
path = "/"
handle = "/id"
headers = {{ X-Action = "Submit" }}
cancel = {{ path = "/", body = {{ id = "{{handle}}" }}, headers = {{ X-Action = "Cancel" }} }}

[calls.actions.poll]
path = "/"
method = "POST"
body = {{ id = "{{handle}}" }}
headers = {{ X-Action = "Query" }}
every = 0.01
status = "/status"
succeeded = ["done"]
result = {{ path = "/", method = "POST", body = {{ id = "{{handle}}" }}, headers = {{ X-Action = "Fetch" }} }}

[calls.addressed]
protocol = "sync-json"
path = "/{{model}}/{{voice_id}}?v=1"
in_path = ["voice_id"]
in_query = ["output_format", "enable_logging", "tag"]
"""


@pytest.fixture
def odd(partner: FakePartner) -> Provider:
    """Return the partner with odd habits."""
    return load_provider(_FILE.format(url=partner.url), "odd.toml")


@pytest.fixture
def other() -> Iterator[FakePartner]:
    """Return another server on this machine, where nobody has sent us."""
    with running_partner() as running:
        yield running


def ask_and_follow(
    provider: Provider, call: str, body: bytes = b"{}", model: str = "a-model", trusted: tuple[str, ...] = ()
) -> Outcome:
    """Send one order and follow its work to the end; `trusted` are addresses of other providers."""

    async def ask() -> Outcome:
        async with partner_client(provider, trusted=trusted) as our:
            order = our.order(call, body, model)
            reading = await our.send(order)
            if not isinstance(reading, Accepted):
                return reading
            return await our.exchange.follow(order, Work(reading.handle, reading.credential))

    return asyncio.run(ask())


def test_body_is_wrapped_in_an_array(odd: Provider, partner: FakePartner) -> None:
    """A partner that takes arrays gets one, with the body's bytes in it."""
    partner.script("/base/array", reply())
    ask_and_follow(odd, "array", b'{"a" : 1}')
    assert [request.body for request in partner.requests()] == [b'[{"a" : 1}]']


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("fal-ai/flux/dev", "/base/v1/fal-ai/flux/dev/run?a=b"),
        ("name:exp@2", "/base/v1/name:exp@2/run?a=b"),
        ("a b?c#d%e", "/base/v1/a%20b%3Fc%23d%25e/run?a=b"),
        ("{model}", "/base/v1/%7Bmodel%7D/run?a=b"),
    ],
)
def test_name_of_a_model_cannot_change_the_path(odd: Provider, partner: FakePartner, model: str, target: str) -> None:
    """The provider's name of a model stands in the path, slashes and all, and nothing of it ends the path."""
    partner.script(target.partition("?")[0], reply(200, b"ID3", "audio/mpeg"))
    assert isinstance(ask_and_follow(odd, "named", model=model), Completed)
    assert [request.target for request in partner.requests()] == [target]


def test_headers_of_a_call_win_over_the_providers(odd: Provider, partner: FakePartner) -> None:
    """A call's headers join the provider's and win over them; other calls do not have them."""
    partner.script("/base/v1/m/run", reply(200, b"ID3", "audio/mpeg"))
    partner.script("/base/array", reply())
    ask_and_follow(odd, "named", model="m")
    ask_and_follow(odd, "array")
    named, array = (request.headers for request in partner.requests())
    assert (named["x-extra"], named["x-fixed"], named["accept"]) == ("one", "differs", "audio/mpeg")
    assert (array.get("x-extra"), array["x-fixed"], array.get("accept")) == (None, "always", None)


def test_parts_of_a_handle_stand_in_a_body_as_texts(odd: Provider, partner: FakePartner) -> None:
    """Parts of a handle stand in a body as the texts they are, whatever characters they have."""
    handle = 'models/x/"op"\\é, {model}'
    partner.script("/base/posted", reply_json({"name": handle}))
    partner.script("/base/veo-3:fetch", reply_json({}), reply_json({"done": False}), reply_json({"done": True}))
    assert isinstance(ask_and_follow(odd, "posted", model="veo-3"), Completed)
    polls = partner.requests("/base/veo-3:fetch", "POST")
    assert len(polls) == 3
    told = json.loads(polls[0].body)
    assert (told["of"], told["count"]) == (["veo-3"], 1)
    assert told["operationName"] == handle
    assert {poll.headers["content-type"] for poll in polls} == {"application/json"}


def _links(status: str, result: str = "") -> Any:
    return reply_json({"id": "t", "urls": {"status": status, "result": result or status}})


def test_address_of_the_partners_own_is_followed(odd: Provider, partner: FakePartner) -> None:
    """Addresses in an answer are asked where the partner itself is, with our credential, and the result is the last."""
    partner.script("/base/linked", _links(f"{partner.url}/s?t=1", f"{partner.url}/r"))
    partner.script(
        "/s", reply(202, b"", "text/plain"), reply_json({"status": "running"}), reply_json({"status": "done"})
    )
    partner.script("/r", reply(503), reply(200, b'{"a":1 }'))
    outcome = ask_and_follow(odd, "linked")
    assert isinstance(outcome, Completed)
    assert outcome.content == b'{"a":1 }'
    assert [request.target for request in partner.requests(method="GET")] == [*["/s?t=1"] * 3, "/r", "/r"]
    assert {request.headers["authorization"] for request in partner.requests()} == {f"Bearer {SECRET}"}


def test_retried_status_of_a_poll_is_asked_again_within_patience(odd: Provider, partner: FakePartner) -> None:
    """A partner whose replicas do not know the work yet is asked again, and believed once it says so too often."""
    unknown, done = reply_json({"status": "unknown"}, 404), reply_json({"status": "done"})
    partner.script("/base/early", reply_json({"id": "t", "polling_url": f"{partner.url}/poll"}))
    partner.script("/poll", unknown, unknown, done)
    assert isinstance(ask_and_follow(odd, "early"), Completed)
    partner.script("/poll", unknown)
    assert ask_and_follow(odd, "early") == Failed(ProviderError(upstream=Upstream(404)), 404, Reached.ACCEPTED)
    assert len(partner.requests("/poll")) == 6


@pytest.mark.parametrize("named", [{}, {"polling_url": None}])
def test_work_without_an_address_is_asked_about_at_the_partners_own(
    odd: Provider, partner: FakePartner, named: dict[str, None]
) -> None:
    """Where an answer names no address, the path of the file is asked, also after the handle was kept and read."""
    partner.script("/base/early", reply_json({"id": "t 1", **named}))
    partner.script("/base/results", reply_json({"status": "done"}))
    assert isinstance(ask_and_follow(odd, "early"), Completed)
    assert [request.target for request in partner.requests(method="GET")] == ["/base/results?id=t%201"]


@pytest.mark.parametrize(
    "link",
    [
        "http://127.0.0.1:{port}/s",
        "https://127.0.0.1.evil.example:{port}/s",
        "https://polls.example.evil.example/s",
        "https://x.polls.example@127.0.0.1:{port}/s",
        "https://files.example/s",
        "http://x.polls.example/s",
        "//127.0.0.1:{port}/s",
        "ftp://x.polls.example/s",
        "file:///etc/passwd",
        "http://[",
        "nonsense",
    ],
)
@pytest.mark.parametrize("at", ["status", "result"])
def test_answer_cannot_send_our_credential_elsewhere(
    odd: Provider, partner: FakePartner, other: FakePartner, link: str, at: str
) -> None:
    """An address outside the hosts of the provider file is not gone to, be it another provider's of this server."""
    away = link.format(port=port_of(other.url))
    here = f"{partner.url}/s"
    partner.script("/s", reply_json({"status": "done"}))
    partner.script("/base/linked", _links(away, here) if at == "status" else _links(here, away))
    outcome = ask_and_follow(odd, "linked", trusted=(other.url,))
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.fault, ProviderError)
    assert outcome.reached is Reached.ACCEPTED
    assert other.accepted == 0


def test_named_host_cannot_lead_to_a_private_address(odd: Provider, partner: FakePartner, other: FakePartner) -> None:
    """Being named in the provider file does not make a private address one that an answer may send us to."""
    partner.script("/base/linked", _links(f"https://127.0.0.1:{port_of(other.url)}/s"))
    outcome = ask_and_follow(odd, "linked")
    assert outcome == Failed(ProviderError("The provider could not be reached."), None, Reached.UNDECIDED)
    assert other.accepted == 0


def test_parts_of_a_handle_stand_where_the_file_says(odd: Provider, partner: FakePartner) -> None:
    """Every part stands where the file says, each as one segment; the result may be asked for with a body."""
    partner.script("/base/split", reply_json({"id": "a/b", "kind": 7}))
    partner.script("/base/7/a%2Fb", reply_json({"status": "done"}))
    partner.script("/base/results", reply_json({"ok": 1}))
    assert isinstance(ask_and_follow(odd, "split"), Completed)
    submit, poll, result = partner.requests()
    assert (submit.method, poll.method, result.method, result.body) == ("POST", "GET", "POST", b'{"id":"a/b"}')


@pytest.mark.parametrize("handle", ["", "t", "[]", '{"id":"a"}', '{"id":"a","kind":1}', '{"id":"a","kind":"b","x":""}'])
def test_unknown_handle_is_not_asked_about(odd: Provider, partner: FakePartner, handle: str) -> None:
    """What another form of the call has kept cannot be followed, and nobody is asked."""

    async def follow() -> Outcome:
        async with partner_client(odd) as our:
            return await our.exchange.follow(our.order("split"), Work(handle))

    outcome = asyncio.run(follow())
    assert isinstance(outcome, Failed)
    assert (isinstance(outcome.fault, ProviderError), outcome.reached) == (True, Reached.ACCEPTED)
    assert partner.requests() == []


@pytest.mark.req("R-17")
@pytest.mark.parametrize(("own", "kind"), [(True, InvalidInput), (False, ServiceUnavailable)])
def test_malformed_credential_is_never_sent(odd: Provider, partner: FakePartner, *, own: bool, kind: type) -> None:
    """A caller's own that has another form is the caller's mistake, one of ours is ours; nothing is sent of either."""
    paired = replace(odd, auth=Auth(Scheme.PAIR, ("X-Id", "X-Secret")))

    async def ask() -> tuple[Outcome | Accepted, Outcome]:
        async with partner_client(paired, [Secret("no-colon")]) as our:
            shown = our.credentials.own("odd", "no-colon") if own else our.credentials.all("odd")[0]
            order = our.order("split")
            sent = await our.exchange.send(order, shown)
            order = type(order)("odd", "split", "m", b"", "k", shown)
            return sent, await our.exchange.follow(order, Work('{"id":"a","kind":"b"}', shown.label))

    sent, followed = asyncio.run(ask())
    for reading, reached in ((sent, Reached.NOTHING), (followed, Reached.ACCEPTED)):
        assert isinstance(reading, Failed)
        assert (type(reading.fault), reading.reached) == (kind, reached)
        assert "no-colon" not in str(reading)
    assert partner.requests() == []


def test_polls_of_all_work_are_bounded_in_number(odd: Provider, partner: FakePartner) -> None:
    """The more work is followed, the longer each pause: all of it together asks a bounded number of times a second."""
    partner.script("/base/k/t", reply_json({"status": "done"}))
    partner.script("/base/results", reply_json({}))
    pauses: list[float] = []

    async def follow() -> None:
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def note(delay: float, callback: object, *args: object, **options: object) -> object:
            if getattr(callback, "__name__", "") == "_set_result_unless_cancelled":  # what asyncio.sleep schedules
                pauses.append(delay)
            return call_later(delay, callback, *args, **options)  # type: ignore[arg-type]

        loop.call_later = note  # type: ignore[assignment,method-assign]
        async with partner_client(odd, OURS) as our:
            works = (our.exchange.follow(our.order("split"), Work('{"id":"t","kind":"k"}')) for _ in range(60))
            assert all(isinstance(outcome, Completed) for outcome in await asyncio.gather(*works))

    asyncio.run(follow())
    assert pauses[0] == 0.01
    assert max(pauses[:60]) == 0.06


def test_requests_about_work_carry_headers_of_their_own(odd: Provider, partner: FakePartner) -> None:
    """A poll and the question for a result name their own action, over that of the call."""
    partner.script("/base/", reply_json({"id": "7"}), reply_json({"status": "done"}), reply_json({"made": True}))
    assert isinstance(ask_and_follow(odd, "actions"), Completed)
    assert [request.headers["x-action"] for request in partner.requests()] == ["Submit", "Query", "Fetch"]


def test_cancellation_carries_its_own_headers(odd: Provider, partner: FakePartner) -> None:
    """Where one address serves every action, the header says that work is to be stopped."""
    partner.script("/base/", reply())

    async def cancel() -> bool:
        async with partner_client(odd) as our:
            return await our.exchange.cancel(our.order("actions"), Work("7", "gone"))

    assert asyncio.run(cancel())
    (request,) = partner.requests()
    assert (request.headers["x-action"], json.loads(request.body)) == ("Cancel", {"id": "7"})


def test_requests_are_signed_as_they_are_sent(odd: Provider, partner: FakePartner) -> None:
    """With TC3 every request is signed with what arrives, and the key itself is neither sent nor told to a caller."""
    signing = replace(odd, auth=Auth(Scheme.TC3, service="ai3d"))
    repeated = {"status": "done", "said": "the-secret-key"}
    partner.script("/base/", reply_json({"id": "7"}), reply_json({"status": "done"}), reply_json(repeated))

    async def ask() -> Outcome:
        async with partner_client(signing, [Secret("the-secret-id:the-secret-key")]) as our:
            order = our.order("actions", b'{"Prompt":"a chair"}')
            reading = await our.send(order)
            assert isinstance(reading, Accepted)
            return await our.exchange.follow(order, Work(reading.handle, reading.credential))

    outcome = asyncio.run(ask())
    assert isinstance(outcome, Completed)
    assert json.loads(outcome.content)["said"] == "**************"
    assert len(partner.requests()) == 3
    for request in partner.requests():
        as_sent = OutgoingRequest(
            request.method, f"{partner.url}{request.target}", request.headers["content-type"], request.body
        )
        expected = tc3_headers(
            as_sent,
            secret_id="the-secret-id",
            secret_key="the-secret-key",
            service="ai3d",
            now=int(request.headers["x-tc-timestamp"]),
        )
        assert request.headers["authorization"] == expected["Authorization"]
        assert b"the-secret-key" not in request.body
        assert "the-secret-key" not in str(request.headers)


def test_fields_of_the_address_leave_the_body(odd: Provider, partner: FakePartner) -> None:
    """They stand in the path and behind it, quoted; what is null or missing is left out, an array is repeated."""
    body = {"text": "hi", "voice_id": "a/b?c", "output_format": "mp3_44100_128", "tag": ["a b", 2], "enable_logging": 0}
    partner.script("/base/m/a%2Fb%3Fc", reply())
    ask_and_follow(odd, "addressed", json.dumps({**body, "enable_logging": None}).encode(), model="m")
    ask_and_follow(odd, "addressed", json.dumps({**body, "tag": None, "enable_logging": False}).encode(), model="m")
    first, second = partner.requests()
    assert first.target == "/base/m/a%2Fb%3Fc?v=1&output_format=mp3_44100_128&tag=a+b&tag=2"
    assert second.target == "/base/m/a%2Fb%3Fc?v=1&output_format=mp3_44100_128&enable_logging=false"
    assert [json.loads(request.body) for request in (first, second)] == [{"text": "hi"}] * 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"voice_id": None}, "voice_id"),
        ({"voice_id": ".."}, "voice_id"),
        ({"output_format": {"a": 1}}, "output_format"),
    ],
)
def test_unusable_fields_of_the_address_are_refused(
    odd: Provider, partner: FakePartner, changes: dict[str, Any], field: str
) -> None:
    """What cannot stand in an address is the caller's to mend, and the partner is not asked."""
    outcome = ask_and_follow(odd, "addressed", json.dumps({"voice_id": "v", **changes}).encode())
    assert isinstance(outcome, Failed)
    assert isinstance(outcome.fault, InvalidInput)
    assert field in outcome.fault.detail
    assert outcome.reached is Reached.NOTHING
    assert partner.requests() == []
