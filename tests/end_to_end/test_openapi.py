"""Every operation of the OpenAPI document is called with what fits it and what does not, and answers as it says.

The calls are made up by a fuzzer, of the document's schemas; to get anywhere, they are mixed with one that is known to
do what the operation is for. No answer may be a 5xx, have a status, a type, a header or a body that is not told of.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core import NOT_SET
from schemathesis.generation import GenerationMode
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import fairlead
from end_to_end.attacked_things import Property, environment, fill, owning, token
from end_to_end.described_calls import Call, Names, call_of, fill_in
from end_to_end.workflow_clients import WorkflowClient, picture
from fairlead.api.http.headers import HeaderNames
from fairlead.api.openapi.document import openapi_document
from fairlead.api.openapi.handlers import Served
from fake_partner import CatalogFolder, FakePartner, reply, reply_json, running_partner
from servers import Server, serving

Operation: TypeAlias = APIOperation[Any, Any, Any, Any]
Case: TypeAlias = schemathesis.Case[Any]
PACKS: Final = Path(__file__).with_name("node_packs")
DOCUMENT: Final[Any] = openapi_document(Served(HeaderNames(), fairlead.__version__))
EXAMPLES: Final = settings.default.max_examples // 5  # type: ignore[union-attr]
"""Calls made up for each operation: there are many of those."""
CHECKS: Final = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)


@dataclass(frozen=True)
class World:
    """A server, somebody who has one of everything there, and the document as it was fetched."""

    server: Server
    owner: WorkflowClient
    names: Names
    schema: schemathesis.BaseSchema
    session: requests.Session

    def operation(self, path: str, method: str) -> Operation:
        """An operation of the document."""
        return self.schema[path][method]

    def send(self, case: Case, credentials: dict[str, str]) -> int:
        """Make a call, have the answer compared with the document, and return its status."""
        headers = {name: value for name, value in dict(case.headers).items() if name.lower() not in _CREDENTIALS}
        case.headers = {**headers, **credentials}  # type: ignore[assignment]
        response = case.call(base_url=self.server.url, session=self.session, allow_redirects=False, timeout=20)
        case.validate_response(response, checks=list(CHECKS))
        return int(response.status_code)


_CREDENTIALS: Final = ("authorization", "x-api-key")
_ADMINISTRATION: Final = "/api/admin/"
"""Is tried on a server of its own (`test_openapi_admin.py`)."""
_OPERATIONS: Final = [
    (path, method.upper(), operation)
    for path, methods in DOCUMENT["paths"].items()
    if not path.startswith(_ADMINISTRATION)
    for method, operation in methods.items()
]
_NOBODYS: Final[Sequence[dict[str, str]]] = (
    {},
    {"Authorization": "Bearer nobody.knows.it"},
    {"X-API-Key": "nobody's"},
)
_RETURNED: Final = 400
_PARAMETER: Final = re.compile(r"\{\w+\}")
_WITH_SLASHES: Final = frozenset({"{file}", "{to}", "{setting}", "{class_name}"})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Return a server in which somebody has everything, and nothing goes on."""
    folder = tmp_path_factory.mktemp("described")
    catalog = CatalogFolder(folder / "catalog")
    with running_partner() as partner:
        fill(catalog, partner)
        _add_assets(catalog, partner)
        with serving(folder / "data", catalog=catalog.path, env=environment(PACKS)) as server:
            limits = ("--subscription", "standard", "--in-flight-limit", "1")
            owner = WorkflowClient(server, server.new_workspace("alice", *limits), "alice")
            with owning(owner) as owned, requests.Session() as session:
                document = strict(owner.http.get("/openapi.json").json())
                server.cli("workspaces", "change", "alice", "--in-flight-limit", "100")
                owner.http.post("/api/interrupt", json={}).raise_for_status()
                owner.wait_for_end(owned.jobs[1])
                yield World(server, owner, _names(owned), schemathesis.openapi.from_dict(document), session)
                partner.release()
            owner.http.close()


def strict(document: Any) -> Any:
    """The document as it is kept to here: an answer has no member that is not told of, though callers must bear one."""
    for schema in document["components"]["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return document


def _add_assets(catalog: CatalogFolder, partner: FakePartner) -> None:
    """Write a model whose result is a file that is copied."""
    catalog.add_model("fake/asset-1", "picky", head='assets = { at = ["/url"], lifetime_hours = 1 }\n')
    partner.script("/picky", reply_json({"ok": True, "url": f"{partner.url}/made/a.png"}))
    partner.script("/made/a.png", reply(200, picture(), "image/png"))


def _names(owned: Property) -> Names:
    """What the owner has, by the names of parameters: of jobs and runs, one that has ended."""
    plain = {name.partition(":")[0]: text for name, text in owned.names.items() if ":" in name}
    return {**owned.names, **plain, **owned.runs[0], "job_id": owned.jobs[0], "file": owned.names["file"]}


def _call_for(operation: Operation, call: Call, names: Names) -> Case:
    """The call that does what an operation is for."""
    wanted = [parameter.name for parameter in operation.path_parameters]
    path = {name: quote(str(fill_in(call.path.get(name, f"{{{name}}}"), names)), safe="") for name in wanted}
    body = NOT_SET if call.body is None else fill_in(call.body, names)
    media_type = next((one.media_type for one in operation.body), None)
    return operation.Case(
        path_parameters=path,
        query=fill_in(dict(call.query), names),
        body=body,
        media_type=None if call.body is None else media_type,
    )


def _mix(known: Case, drawn: Case, kept: frozenset[str]) -> Case:
    """A call some of which was made up."""
    for part in kept:
        setattr(drawn, part, getattr(known, part))
    if "body" in kept:
        drawn.media_type = known.media_type
    return drawn


def _credentials(operation: Any, world: World) -> dict[str, str]:
    """What the owner shows: a token where nothing else is taken."""
    if any("token" in way for way in operation["security"]):
        return {"Authorization": f"Bearer {token('alice')}"}
    return {"X-API-Key": world.owner.key}


@pytest.mark.parametrize(
    ("path", "method", "told"), [pytest.param(*one, id=f"{one[1]} {one[0]}") for one in _OPERATIONS]
)
def test_every_operation_answers_as_documented(world: World, path: str, method: str, told: Any) -> None:
    """It does what it is for; and whatever is wrong with a call, it answers as the document says."""
    operation, call = world.operation(path, method), call_of(told["operationId"])
    credentials = _credentials(told, world)
    names = call.names(world.owner.http, world.names)
    assert world.send(_call_for(operation, call, names), credentials) < _RETURNED
    kept = st.sets(st.sampled_from(("path_parameters", "query", "body"))).map(frozenset)

    @settings(max_examples=EXAMPLES if _can_be_wrong(told) else EXAMPLES // 4, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def fuzz(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(ways_of(told)))
        drawn, parts = data.draw(operation.as_strategy(mode)), data.draw(kept)
        again = call.names(world.owner.http, world.names) if "path_parameters" in parts else names
        world.send(_mix(_call_for(operation, call, again), drawn, parts), credentials)

    fuzz()


def ways_of(told: Any) -> tuple[GenerationMode, ...]:
    """Ways to make up a call."""
    return (GenerationMode.POSITIVE, *((GenerationMode.NEGATIVE,) if _can_be_wrong(told) else ()))


def _can_be_wrong(told: Any) -> bool:
    """Whether a call has anything that can be wrong: a body or a query. Of others, only ids can be made up."""
    return "requestBody" in told or any(one["in"] == "query" for one in told.get("parameters", ()))


def test_no_operation_is_done_without_a_credential(world: World) -> None:
    """Without a credential, and with a bad one, the answer is 401, as the document says."""
    done = []
    for path, method, told in _OPERATIONS:
        if told["security"]:
            operation, call = world.operation(path, method), call_of(told["operationId"])
            known = _call_for(operation, call, call.names(world.owner.http, world.names))
            statuses = [world.send(known, shown) for shown in _NOBODYS]
            done += [(method, path, statuses)] if {*statuses} != {401} else []
    assert done == []


def test_undocumented_method_is_refused(world: World) -> None:
    """A method that the document does not name is refused with 405, and `Allow` names those that it does."""
    wrong = []
    for path in DOCUMENT["paths"]:
        told, sent = _methods_of(path), _PARAMETER.sub("a", path)
        of_others = {method for other in DOCUMENT["paths"] if _matches(other, sent) for method in _methods_of(other)}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - told - of_others:
            answer = world.owner.http.request(method, sent)
            allowed = {one.strip() for one in answer.headers.get("allow", "").split(",")}
            if (answer.status_code, allowed - {"HEAD"}) != (405, told - {"HEAD"}):
                wrong.append((method, path, answer.status_code, allowed))
    assert wrong == []


def _methods_of(path: str) -> set[str]:
    return {method.upper() for method in DOCUMENT["paths"][path]}


def _matches(path: str, sent: str) -> bool:
    """Whether a path that was sent is also one of another form, as `/jobs/cancel` is of `/jobs/{job_id}`."""
    parts = _PARAMETER.split(path)
    names = [".+" if name in _WITH_SLASHES else "[^/]+" for name in _PARAMETER.findall(path)]
    pattern = "".join(re.escape(part) + name for part, name in zip(parts, [*names, ""], strict=True))
    return re.fullmatch(pattern, sent) is not None
