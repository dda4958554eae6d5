"""The further words of provider files: each is read as it is meant, and what contradicts itself is refused."""

from decimal import Decimal
from typing import Final

import pytest

from cases import for_each
from fairlead.domain.declarations import BadFileError
from fairlead.domain.pointers import Condition
from fairlead.providers.spec import Asking, Auth, Cooldown, Form, Part, Provider, Retry, Scheme
from fairlead.providers.spec_files import load_provider

_GOOD: Final = """\
provider = "odd"
title = "A partner with odd habits"
base_url = "https://{region}.x.example/{project}/api"
hosts = ["*.x.example", "polls.example"]
asset_hosts = ["files.example"]
alternate = true
variables = ["region", "project"]

[auth]
scheme = "jwt"
header = "X-Token"
algorithm = "RS256"
audience = "https://x.example/"
lifetime = 900

[retry]
times = 1
first = 0.25
at_most = 2

[postpone]
times = 3
first = 1.5
at_most = 60

[cooldown]
after = 7
seconds = 12

[calls.edit]
protocol = "sync-json"
path = "/v1/{model}/edit?a=b"
form = { files = [{ name = "image[]", at = "/image/*" }] }
headers = { X-Extra = "1" }
accept = "image/png"
in_array = true
free_when_left = true

[calls.later]
protocol = "submit-and-poll"
path = "/later"
handle = { id = "/id", status = "/links/status" }

[calls.later.poll]
path = "{status}"
method = "POST"
body = { name = "{id}" }
status = "/state"
succeeded = ["done"]
pending_status = [202]
retried_status = [404]
result = { path = "/{id}/{model}", method = "POST", body = ["{id}"] }
cancelled = ["stopped"]

[calls.later.cancel]
path = "{status}/stop?now={model}"
method = "PUT"
body = { stop = "{id}" }

[[signs]]
means = "refused"
calls = ["edit"]
when = [{ at = "/a", contains = ["No"] }, { at = "/b/*", above = "1.5" }, { at = "/c", present = false }]
side = "output"

[[signs]]
means = "refused"
status = [400]
subject = "/code"
subjects = { nsfw = "input_image" }
"""
_CANCEL: Final = """\
path = "{status}/stop?now={model}"
method = "PUT"
body = { stop = "{id}" }"""


@pytest.fixture
def odd() -> Provider:
    """Return the provider that says everything."""
    return load_provider(_GOOD, "odd.toml")


def test_every_word_of_a_file_is_read(odd: Provider) -> None:
    """What a partner is, how it is authenticated to, and how much patience there is with it."""
    assert odd.auth == Auth(Scheme.JWT, ("X-Token",), "Bearer ", "RS256", "https://x.example/", 900)
    assert (odd.retry, odd.postpone, odd.cooldown) == (Retry(1, 0.25, 2.0), Retry(3, 1.5, 60.0), Cooldown(7, 12.0))
    assert (odd.is_alternate, odd.hosts, odd.asset_hosts) == (
        True,
        ("*.x.example", "polls.example"),
        ("files.example",),
    )


def test_every_word_of_a_call_is_read(odd: Provider) -> None:
    """How a call is sent, and how submitted work is asked about."""
    edit, later = odd.calls["edit"], odd.calls["later"]
    assert (edit.form, edit.headers, edit.accept, edit.is_in_array) == (
        Form((Part("image[]", ("image", "*")),)),
        {"X-Extra": "1"},
        "image/png",
        True,
    )
    assert (later.form, later.headers, later.accept, later.is_in_array) == (None, {}, None, False)
    assert later.handle == {"id": ("id",), "status": ("links", "status")}
    assert later.polling is not None
    assert later.polling.asking == Asking("POST", "{status}", '{"name":"{id}"}')
    assert later.polling.result == Asking("POST", "/{id}/{model}", '["{id}"]')
    assert later.polling.pending_status == {202}
    assert later.polling.retried_status == {404}
    assert later.polling.cancelled == {"stopped"}
    assert (edit.is_free_when_left, later.is_free_when_left) == (True, False)
    assert (edit.cancel, later.cancel) == (None, Asking("PUT", "{status}/stop?now={model}", '{"stop":"{id}"}'))


def test_every_word_of_a_sign_is_read(odd: Provider) -> None:
    """When a sign holds, where, and what it says of the refused side."""
    first, second = odd.signs
    assert first.when == (
        Condition(("a",), contains=("no",)),
        Condition(("b", "*"), above=Decimal("1.5")),
        Condition(("c",), is_present=False),
    )
    assert (first.calls, first.side, first.status) == (frozenset({"edit"}), "output", None)
    assert (second.calls, second.side, second.status) == (None, None, frozenset({400}))
    assert (second.subject, second.subjects) == (("code",), {"nsfw": "input_image"})


def test_fields_of_the_address_and_headers_of_polls_are_read() -> None:
    """Which fields of a body go into the address, what a poll sends beyond its call, and what signatures are for."""
    text = _GOOD.replace('scheme = "jwt"', 'scheme = "tc3"\nservice = "ai3d"').replace(
        '"/v1/{model}/edit?a=b"', '"/v1/{model}/{voice_id}"\nin_path = ["voice_id"]\nin_query = ["output_format"]'
    )
    odd = load_provider(text.replace('method = "POST"\n', 'method = "POST"\nheaders = { X-B = "2" }\n', 1), "odd.toml")
    assert (odd.auth.scheme, odd.auth.service) == (Scheme.TC3, "ai3d")
    assert (odd.calls["edit"].in_path, odd.calls["edit"].in_query) == (("voice_id",), ("output_format",))
    assert odd.calls["later"].polling is not None
    assert odd.calls["later"].polling.asking.headers == {"X-B": "2"}
    both = text.replace('["output_format"]', '["voice_id"]')
    with pytest.raises(BadFileError, match="not in both"):
        load_provider(both, "odd.toml")


def test_absent_fields_have_their_defaults() -> None:
    """A file that says only what it must: no alternate, no hosts, the usual patience."""
    text = (
        'provider = "bare"\ntitle = "Bare"\nbase_url = "http://x"\n[auth]\nscheme = "pair"\nheaders = ["X-A", "X-B"]\n'
        '[calls.a]\nprotocol = "sync-json"\npath = "/a"\n'
    )
    bare = load_provider(text, "bare.toml")
    assert bare.auth == Auth(Scheme.PAIR, ("X-A", "X-B"))
    assert (bare.is_alternate, bare.hosts, bare.asset_hosts, bare.variables) == (False, (), (), ())
    assert (bare.retry, bare.postpone, bare.cooldown) == (Retry(2, 0.5, 8.0), Retry(8, 15.0, 300.0), Cooldown(5, 30.0))


def test_missing_parts_of_an_address_are_named(odd: Provider) -> None:
    """A partner misses the parts of its address that nobody gave; another address needs none."""
    assert odd.missing == ("region", "project")
    half = odd.with_variables({"region": "eu", "strange": "x"})
    assert (half.missing, half.base_url) == (("project",), "https://eu.x.example/{project}/api")
    whole = half.with_variables({"project": "p-1"})
    assert (whole.missing, whole.base_url) == ((), "https://eu.x.example/p-1/api")
    assert odd.at("http://127.0.0.1:9/").missing == ()


@pytest.mark.parametrize(
    ("url", "with_credential", "without"),
    [
        ("https://eu.x.example/anything?a", True, True),
        ("https://a.b.x.example:8443/", True, True),
        ("https://POLLS.example/", True, True),
        ("https://files.example/a", False, True),
        ("https://x.example/", False, False),
        ("https://evilx.example/", False, False),
        ("https://polls.example.evil.example/", False, False),
        ("https://a.polls.example/", False, False),
        ("http://polls.example/", False, False),
        ("https://user@polls.example/", False, False),
        ("https://polls.example@evil.example/", False, False),
        ("https://evil.example\\@polls.example/", False, False),
        ("https:///polls.example", False, False),
        ("//polls.example/", False, False),
        ("polls.example", False, False),
        ("http://[", False, False),
        ("", False, False),
    ],
)
def test_only_known_hosts_may_be_followed(odd: Provider, url: str, *, with_credential: bool, without: bool) -> None:
    """Only named hosts under https, and the partner's own address, may be followed; those of assets without us."""
    provider = odd.with_variables({"region": "eu", "project": "p"})
    assert provider.may_follow(url, with_credential=True) is with_credential
    assert provider.may_follow(url, with_credential=False) is without


def test_star_opens_asset_links_and_not_our_credential() -> None:
    """`*` opens asset links to every host under https, and nothing to our credential."""
    open_to_all = load_provider(_GOOD.replace('["files.example"]', '["*"]'), "odd.toml")
    assert open_to_all.may_follow("https://anything.example/a", with_credential=False)
    assert not open_to_all.may_follow("https://anything.example/a", with_credential=True)
    assert not open_to_all.may_follow("http://anything.example/a", with_credential=False)


def test_partner_may_name_its_own_address() -> None:
    """A partner on this machine may name its own address, scheme and port included."""
    text = _GOOD.replace("https://{region}.x.example/{project}/api", "http://127.0.0.1:9").replace(
        '["region", "project"]', "[]"
    )
    local = load_provider(text, "odd.toml")
    assert local.may_follow("http://127.0.0.1:9/x", with_credential=True)
    for url in ("http://127.0.0.1:10/x", "https://127.0.0.1:9/x", "http://127.0.0.1/x", "http://localhost:9/x"):
        assert not local.may_follow(url, with_credential=True)


@for_each(
    ("old", "new", "at", "reason"),
    [
        ('scheme = "jwt"', 'scheme = "pair"', "[auth]", "'headers' belongs to the scheme pair"),
        ('scheme = "jwt"', 'scheme = "jwt"\nheaders = ["A", "B"]', "headers = [", "'headers' belongs to"),
        ('scheme = "jwt"', 'scheme = "pair"\nheaders = ["A"]', "headers = [", "length >= 2"),
        ('"RS256"', '"none"', "algorithm", "Invalid enum value 'none'"),
        ("lifetime = 900", "lifetime = 59", "lifetime", ">= 60"),
        ("lifetime = 900", "lifetime = 3601", "lifetime", "<= 3600"),
        ('["region", "project"]', '["region"]', "base_url", "disagree about 'project'"),
        ('["region", "project"]', '["region", "project", "zone"]', "base_url", "disagree about 'zone'"),
        ('["region", "project"]', '["Region", "project"]', "variables", "matching regex"),
        ('"*.x.example"', '"x.*.example"', "hosts", "matching regex"),
        ('"*.x.example"', '"https://x.example"', "hosts", "matching regex"),
        ('"*.x.example"', '"localhost"', "hosts", "matching regex"),
        ("times = 1", "times = 11", "times = 11", "<= 10"),
        ("first = 0.25", "first = 0", "first = 0", "> 0"),
        ("after = 7", "after = 0", "after = 0", ">= 1"),
        ("seconds = 12", "seconds = -1", "seconds = -1", "> 0"),
        ("{model}/edit", "{handle}/edit", "/v1/{handle}", "nothing stands for 'handle'"),
        ('scheme = "jwt"', 'scheme = "tc3"', "[auth]", "'service' belongs to the scheme tc3"),
        ('scheme = "jwt"', 'scheme = "jwt"\nservice = "ai3d"', "service = ", "'service' belongs to the scheme tc3"),
        (
            'protocol = "submit-and-poll"',
            'protocol = "submit-and-poll"\nfree_when_left = true',
            "free_when_left",
            "goes on",
        ),
        ("in_array = true", 'in_path = ["voice"]', "in_path = ", "that 'path' has in braces"),
        ("in_array = true", 'in_path = ["model"]', "in_path = ", "{model} is not one"),
        ("in_array = true", 'in_query = ["output format"]', "in_query = ", "matching regex"),
        ("image[]", "image\\r\\n", "form = ", "matching regex"),
        ('at = "/image/*"', 'at = "image"', "form = ", "matching regex"),
        ('X-Extra = "1"', '"X-Extra:" = "1"', "headers = {", "matching regex"),
        ('X-Extra = "1"', 'X-Extra = "1\\r\\nX: y"', "headers = {", "matching regex"),
        ('accept = "image/png"', 'accept = "image/\\n"', "accept = ", "matching regex"),
        ('id = "/id"', 'Id = "/id"', "handle = ", "lower-case letters"),
        ('id = "/id"', 'id = "id"', "handle = ", "pointers such as"),
        ('path = "{status}"', 'path = "{link}"', "[calls.later.poll]", "no part 'link'"),
        ('"/{id}/{model}"', '"/{id}/{other}"', "[calls.later.poll]", "no part 'other'"),
        ('body = ["{id}"]', 'body = ["{what}"]', "[calls.later.poll]", "no part 'what'"),
        ('"/{id}/{model}"', '"https://x.example"', "result = ", "matching regex"),
        ('method = "POST"\n', 'method = "PUT"\n', "method = ", "Invalid enum value 'PUT'"),
        ("pending_status = [202]", "pending_status = [2]", "pending_status", ">= 100"),
        ("retried_status = [404]", "retried_status = [600]", "retried_status", "<= 599"),
        ("retried_status = [404]", 'otherwise = "/r?id={id}"', "otherwise = ", "needed for another request"),
        ("retried_status = [404]", 'otherwise = "/r"', "otherwise = ", "nothing of the handle is asked about without"),
        ("retried_status = [404]", 'otherwise = "/{id}/{what}"', "[calls.later.poll]", "no part 'what'"),
        ('path = "{status}"\nmethod', 'path = "/{id}"\notherwise = "/{id}"\nmethod', "otherwise = ", "'path' has none"),
        ('cancelled = ["stopped"]', 'cancelled = ["x", "done"]', "cancelled = ", "'done' means something else as well"),
        ('cancelled = ["stopped"]', 'unbilled = ["lost"]', "unbilled = ", "'lost' is not among the texts of 'failed'"),
        ('cancelled = ["stopped"]', 'cancelled = "stopped"', "cancelled = ", "Expected `array`"),
        ('"{status}/stop?now={model}"', '"{status}stop"', 'path = "{status}stop"', "matching regex"),
        ('"{status}/stop?now={model}"', '"{status}/{what}"', "[calls.later.cancel]", "no part 'what'"),
        ('stop = "{id}"', 'stop = "{what}"', "[calls.later.cancel]", "no part 'what'"),
        ('method = "PUT"', 'method = "GET"', 'method = "GET"', "Invalid enum value 'GET'"),
        (_CANCEL, 'path = "/stop"', 'path = "/stop"', "nothing of the handle is cancelled; it has id, status"),
        ("in_array = true", 'cancel = { path = "/{id}" }', "cancel = ", "sync-json has ended with its answer"),
        (
            'means = "refused"\ncalls',
            'means = "cancelled"\ncalls',
            'means = "cancelled"',
            "none of its calls submits any",
        ),
        (
            'contains = ["No"]',
            'contains = ["No"], equals = ["x"]',
            "when = [",
            "says one thing, not equals and contains",
        ),
        ('contains = ["No"]', "contains = []", "when = [", "length >= 1"),
        ('above = "1.5"', "above = 1.5", "when = [", "Expected `str | null`"),
        ('calls = ["edit"]', 'calls = ["draw"]', 'calls = ["draw"]', "there is no call 'draw'"),
        ('calls = ["edit"]', "calls = []", "calls = []", "length >= 1"),
        ('side = "output"', 'side = "the output"', "side = ", "'the output' is not a refusal subject"),
        ('nsfw = "input_image"', 'nsfw = "pictures"', "subjects = ", "'pictures' is not a refusal subject"),
        ("status = [400]\n", "", 'subject = "/code"', "always holds"),
    ],
)
def test_contradiction_is_told_with_its_line(old: str, new: str, at: str, reason: str) -> None:
    """Every mistake is told with its file, the nearest line that can be named, and what is wrong there."""
    assert old in _GOOD
    text = _GOOD.replace(old, new, 1)
    with pytest.raises(BadFileError) as caught:
        load_provider(text, "odd.toml")
    assert reason in caught.value.reason
    lines = text.splitlines()
    line = lines[caught.value.line - 1]
    if at == 'subject = "/code"':
        assert line == "[[signs]]"
        assert at in "\n".join(lines[caught.value.line :])
    else:
        assert at in line
