"""Two workspaces attack each other through every route: nothing is read, nothing is changed, nothing can be told apart.

An intruder asks for what is the owner's and for what nobody has, and must get the same answer to both.
"""

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import fairlead.api
from end_to_end.attack_table import ATTACKS, OWN_GRAPH, Attack
from end_to_end.attacked_things import PARTNER_KEY, Property, Things, environment, fill, nobodys, owning, shape, token
from end_to_end.workflow_clients import WorkflowClient, graph_showing
from fairlead.api.cloud import routes as cloud
from fake_partner import CatalogFolder, FakePartner, running_partner
from servers import Server, serving, wait_until

PACKS: Final = Path(__file__).with_name("node_packs")
_OUTSIDE_TABLES: Final = re.compile(r'(?:Route\(|yield "(?P<method>[A-Z]+)", )\s*"(?P<path>/[^"]*)"')
_PLACES: Final = {route.path: route.paths for route in cloud.ROUTES}
_PATIENCE: Final = 60.0
Sent = Mapping[str, str]


@dataclass(frozen=True)
class World:
    """A server with an owner who has one of everything, an intruder, and a bystander who was there before them."""

    server: Server
    owner: Property
    intruder: WorkflowClient
    bystander: WorkflowClient
    seen_before: Mapping[str, Any]
    revoked: str
    partner: FakePartner


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a server in which every workspace has things of its own."""
    folder = tmp_path_factory.mktemp("attacked")
    catalog = CatalogFolder(folder / "catalog")
    with running_partner() as partner:
        fill(catalog, partner)
        with serving(folder / "data", catalog=catalog.path, env=environment(PACKS)) as server:
            yield from _make_world(server, partner)


def _make_world(server: Server, partner: FakePartner) -> Iterator[World]:
    limits = ("--subscription", "standard", "--in-flight-limit", "1")
    owner, intruder, bystander = (
        WorkflowClient(server, server.new_workspace(name, *options), name)
        for name, options in (("alice", limits), ("mallory", ()), ("bob", ()))
    )
    seen_before = _look_around(bystander)
    issued = server.cli("keys", "create", "mallory", "--models", "all", "--json")
    server.cli("keys", "revoke", issued["id"])
    try:
        with owning(owner) as owned:
            yield World(server, owned, intruder, bystander, seen_before, issued["key"], partner)
            partner.release()
    finally:
        for client in (owner, intruder, bystander):
            client.http.close()


def _routes() -> set[tuple[str, str]]:
    """Every route there is: those of the tables, and those that are written beside them."""
    found: set[tuple[str, str]] = set()
    for module in pkgutil.walk_packages(fairlead.api.__path__, "fairlead.api."):
        if module.name.endswith(".routes"):
            table = importlib.import_module(module.name).ROUTES
            found |= {(route.method, route.path) for route in table}
        elif not module.ispkg:
            source = Path(str(module.module_finder.find_spec(module.name).origin)).read_text("utf-8")  # type: ignore[union-attr, call-arg]
            found |= {(one["method"] or "GET", one["path"]) for one in _OUTSIDE_TABLES.finditer(source)}
    return found


def test_every_route_is_attacked() -> None:
    """Every route has a row in the table of attacks, and every row a route."""
    assert {attack.route for attack in ATTACKS} == _routes()


def _fill(template: Any, things: Things) -> Any:
    """A template with things in place of their names."""
    match template:
        case str():
            for name, value in things.items():
                template = template.replace(f"{{{name}}}", value)
            return template
        case bytes() | bool() | int() | None:
            return template
        case tuple() | list():
            return type(template)(_fill(one, things) for one in template)
        case _:
            return {_fill(name, things): _fill(value, things) for name, value in template.items()}


def _ask(
    world: World, attack: Attack, path: str, things: Things, credential: Sent, method: str | None = None
) -> httpx.Response:
    """Send an attack with a credential and no other."""
    options = {
        name: _fill(value, things)
        for name in ("params", "json", "content", "files", "data")
        if (value := getattr(attack, name)) is not None
    }
    headers = {**_fill(attack.headers, things), **credential}
    request = httpx.Request(method or attack.method, world.server.url + _fill(path, things), headers=headers, **options)
    # A request that is whole is sent as it is, with none of the client's own headers.
    answer = world.intruder.http.send(request, stream=True)
    try:
        if "event-stream" in answer.headers.get("content-type", ""):  # it is open, and may never end
            return httpx.Response(answer.status_code, headers=answer.headers, request=request)
        answer.read()
        return answer
    finally:
        answer.close()


def _credential(attack: Attack, key: str, workspace: str, expires: int = 4_000_000_000) -> Sent:
    """The credential of a caller: a token where keys are not accepted."""
    is_token = attack.path.startswith("/v1/")
    return {"Authorization": f"Bearer {token(workspace, expires)}"} if is_token else {"X-API-Key": key}


def _targets(world: World, attack: Attack) -> Iterator[tuple[str, Things]]:
    """Every place where the route of an attack is served, with everything it may be aimed at."""
    asked = json.dumps([attack.path, attack.json, attack.params, attack.data])
    for path in _PLACES.get(attack.path, (attack.path,)):
        for things in world.owner.variants(asked):
            yield path, things


def _leaks(world: World, attack: Attack, things: Things, answer: httpx.Response) -> list[str]:
    """What is the owner's in an answer, and was not in the question."""
    asked = [attack.path, attack.params, attack.json, attack.files, attack.data, attack.headers]
    said = unquote(str(_fill(asked, things)))
    told = f"{answer.headers} {answer.text}"
    return [secret for secret in world.owner.secrets() if secret in told and secret not in said]


def _wait_until_idle(intruder: WorkflowClient) -> None:
    """Wait until the intruder's own jobs have ended, so that the same is told of them twice."""
    wait_until(
        lambda: intruder.http.get("/api/prompt").json()["exec_info"]["queue_remaining"] == 0,
        "own jobs to end",
    )


def _learn(world: World, attack: Attack, path: str, things: Things) -> Iterator[str]:
    """What the intruder learns of the owner's things by one attack."""
    credential, absent = _credential(attack, world.intruder.key, "mallory"), nobodys(things)
    _wait_until_idle(world.intruder)
    theirs = _ask(world, attack, path, things, credential)
    if theirs.status_code != attack.status:
        yield f"answers {theirs.status_code}: {theirs.text[:300]}"
    if attack.known:
        return
    _wait_until_idle(world.intruder)
    answers = shape(theirs, things), shape(_ask(world, attack, path, absent, credential), absent)
    if answers[0] != answers[1] and path != "/metrics":  # asking for metrics changes them
        yield f"answers {answers[0]}, and where there is nothing {answers[1]}"
    if leaked := _leaks(world, attack, things, theirs):
        yield f"tells {leaked}"


@pytest.mark.req("R-37", "C-13", "J-07", "J-14", "G-01")
def test_no_workspace_reads_or_changes_what_another_has(world: World) -> None:
    """Whatever is asked for: the answer is that for what nobody has, and the owner's things stay as they are."""
    before = world.owner.reading()
    assert {status for status, _ in before.values()} == {200}
    wrong = []
    for attack in ATTACKS:
        for path, things in _targets(world, attack):
            wrong += [(attack.method, path, what) for what in _learn(world, attack, path, things)]
        if attack.method not in {"GET", "HEAD"} and world.owner.reading() != before:
            wrong.append((attack.method, attack.path, "changes what the owner has"))
            before = world.owner.reading()
    assert not wrong, "\n".join(map(str, wrong))
    assert world.owner.reading() == before


def test_head_tells_no_more_than_get(world: World) -> None:
    """Status and headers of what is the owner's are those of what nobody has."""
    for attack in ATTACKS:
        if attack.method == "GET" and not attack.known and attack.path != "/metrics":
            credential = _credential(attack, world.intruder.key, "mallory")
            for path, things in _targets(world, attack):
                absent = nobodys(things)
                answers = [
                    shape(_ask(world, attack, path, each, credential, "HEAD"), each) for each in (things, absent)
                ]
                assert answers[0] == answers[1], path


@pytest.mark.req("R-37")
def test_neither_nobody_nor_a_revoked_key_is_let_in(world: World) -> None:
    """401 whether or not there is what is asked for; a signed link stays 403, and what is public is told to all."""
    before = world.owner.reading()
    wrong = []
    for attack in ATTACKS:
        expected = 401 if attack.access == "credential" else attack.status
        for path, things in _targets(world, attack):
            absent = things if attack.known else nobodys(things)
            for credential in ({}, _credential(attack, world.revoked, "mallory", expires=1_000_000_000)):
                answers = [_ask(world, attack, path, each, credential) for each in (things, absent)]
                told = [shape(answer, each) for answer, each in zip(answers, (things, absent), strict=True)]
                if answers[0].status_code != expected or (told[0] != told[1] and path != "/metrics"):
                    wrong.append((attack.method, path, bool(credential), told))
    assert not wrong, "\n".join(map(str, wrong))
    assert world.owner.reading() == before


def _look_around(bystander: WorkflowClient) -> Mapping[str, Any]:
    """What a workspace is told that asks for nothing in particular; what is public is left out."""
    seen = {}
    for attack in ATTACKS:
        if attack.method == "GET" and "{" not in attack.path and attack.access == "credential":
            credential = _credential(attack, bystander.key, bystander.workspace)
            for path in _PLACES.get(attack.path, (attack.path,)):
                answer = bystander.http.send(httpx.Request("GET", bystander.url + path, headers=credential))
                headers = [pair for pair in answer.headers.items() if pair[0] not in {"date", "x-service-request-id"}]
                seen[path] = (answer.status_code, headers, answer.text)
    return seen


def test_bystander_sees_nothing_of_others(world: World) -> None:
    """Every list and every count is to the byte what it was before the others came."""
    assert _look_around(world.bystander) == world.seen_before


def _nobody_can_watch(world: World, path: str, query: str) -> None:
    address = world.server.url.replace("http", "ws", 1)
    with pytest.raises(InvalidStatus) as refused, connect(f"{address}{path}?{query}"):
        pass
    assert refused.value.response.status_code == 401


@pytest.mark.req("C-08", "C-13")
@pytest.mark.parametrize("path", cloud.SOCKETS)
def test_socket_tells_nothing_of_what_others_do(world: World, path: str) -> None:
    """A client that uses the owner's client id hears nothing either, and without a valid key no socket opens."""
    for query in ("clientId=alice", f"clientId=alice&token={world.revoked}", "clientId=alice&token="):
        _nobody_can_watch(world, path, query)
    address = world.server.url.replace("http", "ws", 1)
    with connect(f"{address}{path}?clientId=alice&token={world.intruder.key}") as socket:
        hers = world.owner.client.submit(graph_showing("PrimitiveInt", value=3), client_id="alice")
        world.owner.client.http.post("/api/queue", json={"delete": [hers]}).raise_for_status()
        mine = world.intruder.submit(OWN_GRAPH)
        heard = ""
        while not ("execution_success" in heard and mine in heard):
            heard += str(socket.recv(timeout=_PATIENCE))
    assert [secret for secret in (*world.owner.secrets(), hers) if secret in heard] == []


@pytest.mark.req("R-17")
def test_key_at_a_partner_is_used_for_its_workspace_alone(world: World) -> None:
    """The intruder's run on the same provider goes out with the server's own key."""
    path, body = "/v2/models/fake/bytes-1", {"prompt": "a harbour"}
    for client in (world.owner.client, world.bystander):
        assert client.http.post(path, json=body).status_code in {200, 429}
    keys = [request.headers["authorization"] for request in world.partner.requests("/bytes")]
    assert keys
    assert f"Bearer {PARTNER_KEY}" not in keys


@pytest.mark.req("C-04", "C-13")
@pytest.mark.parametrize("path", _PLACES["/api/prompt"])
def test_id_that_another_uses_cannot_be_told_from_a_free_one(world: World, path: str) -> None:
    """It is taken as one that nobody has; what is under it then is the chooser's own, and nothing else can be ended."""
    before, name = world.owner.reading(), path.strip("/").replace("/", "-")
    chooser = WorkflowClient(world.server, world.server.new_workspace(name), name)
    theirs = [{**world.owner.names, "job_id": job_id} for job_id in world.owner.jobs]
    answers = set()
    for things in (*theirs, *map(nobodys, theirs)):
        answer = chooser.http.post(path, json={"prompt": OWN_GRAPH, "prompt_id": things["job_id"]})
        answers.add(str(shape(answer, things)))
        made = chooser.wait_for_end(things["job_id"])
        assert (made["status"], made["workflow"]["prompt"]) == ("completed", OWN_GRAPH)
        assert chooser.http.post(f"/api/jobs/{things['job_id']}/cancel").json() == {"cancelled": False}
        assert chooser.http.post("/api/interrupt", json={"prompt_id": things["job_id"]}).json() == {"interrupted": []}
    assert len(answers) == 1, answers
    assert answers.pop().startswith("(200, ")
    assert world.owner.reading() == before
    chooser.http.close()
