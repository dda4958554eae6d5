"""The OpenAPI document tells of everything that the routes and the tables of errors have, and of nothing else."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import jsonschema_rs
import pytest
import schemathesis

from domain.every_fault import EVERY
from fairlead.api import routes as service
from fairlead.api.admin import api as admin
from fairlead.api.admin import errors as admin_errors
from fairlead.api.admin.documents import ErrorCode
from fairlead.api.cloud import api as cloud
from fairlead.api.cloud import errors as cloud_errors
from fairlead.api.http.api import Refusal
from fairlead.api.http.headers import HeaderNames
from fairlead.api.http.route import Api
from fairlead.api.jobs import api as jobs
from fairlead.api.jobs import errors as jobs_errors
from fairlead.api.jobs.documents import JobsErrorCode
from fairlead.api.openapi.document import openapi_document
from fairlead.api.openapi.handlers import Served
from fairlead.api.registry import errors as registry_errors
from fairlead.api.registry.api import registry_api
from fairlead.api.registry.wire import ErrorName
from fairlead.api.router import routes as router
from fairlead.api.router.errors import error_response
from fairlead.api.router.generations import V2
from fairlead.domain.faults import FaultError, RequestNotFound, bucket
from form.sources import PACKAGE

_DOCUMENT: Final[Any] = openapi_document(Served(HeaderNames(), "1"))
_APIS: Final = (router.API, cloud.API, jobs.API, registry_api(), admin.API, service.API)
_NEVER_TOLD: Final = {"405", "499"}
"""The first is told of no operation but of paths; nobody is there to see the second."""


def test_document_is_valid_openapi() -> None:
    """It keeps to the schema of the format."""
    schemathesis.openapi.from_dict(_DOCUMENT).validate()


def test_every_route_is_in_the_document() -> None:
    """Each path with its methods stands in the document, and no other."""
    told = {(method.upper(), path) for path, methods in _DOCUMENT["paths"].items() for method in methods}
    served = {
        (route.method, api.prefix + re.sub(r":\w+\}", "}", path))
        for api in _APIS
        for route in api.routes
        for path in route.paths
    }
    assert told == served


@pytest.mark.parametrize("api", _APIS, ids=lambda api: api.name)
def test_every_parameter_of_a_path_is_described(api: Api) -> None:
    """Each parameter of a path is described, and nothing else is."""
    paths = " ".join(route.path for route in api.routes)
    assert set(re.findall(r"\{(\w+)", paths)) == {*api.path_parameters}


def test_every_operation_has_its_own_name() -> None:
    """Programs that are made of the document call its operations by their names."""
    names = [operation["operationId"] for operation in _operations()]
    assert len(names) == len(set(names))


def test_every_reference_leads_to_a_component() -> None:
    """Each reference names a component, and each component but the ways to prove oneself is named by one."""
    referred = set(_references(_DOCUMENT))
    parts = {
        f"#/components/{kind}/{name}"
        for kind, named in _DOCUMENT["components"].items()
        if kind != "securitySchemes"
        for name in named
    }
    assert referred - parts == set()
    assert {part for part in parts - referred if "/headers/" not in part} == set()
    used = {name for operation in _operations() for way in operation["security"] for name in way}
    assert used == set(_DOCUMENT["components"]["securitySchemes"])


@pytest.mark.parametrize(
    ("api", "refusal"),
    [
        ("router", lambda error, _: Refusal(error_response(error.fault, V2, HeaderNames())[0], [], b"", "")),
        ("cloud", cloud_errors.refusal),
        ("jobs", jobs_errors.refusal),
        ("registry", registry_errors.refusal),
        ("admin", admin_errors.refusal),
    ],
)
def test_documented_statuses_are_those_that_exist(api: str, refusal: Callable[[Any, Any], Refusal]) -> None:
    """The errors that an API has words for are those that its operations name."""
    source = (PACKAGE / "api" / api / "errors.py").read_text("utf-8")
    has = set(re.findall(r"(?:_Worded\(|status = |else )(\d{3})", source))
    has |= {str(refusal(FaultError(fault), {"method": "GET"}).status) for fault in EVERY}
    has |= {str(refusal(FaultError(RequestNotFound()), {"method": "GET"}).status)}
    named = {
        reference.rpartition("_")[2]
        for reference in _references(_DOCUMENT["paths"])
        if reference.startswith(f"#/components/responses/{api}_")
    }
    assert named - {"416"} == has - _NEVER_TOLD - {"416"}


def test_documented_buckets_are_those_of_the_domain() -> None:
    """The names of buckets are those of the domain, and each is the bucket of a fault."""
    documented = _DOCUMENT["components"]["schemas"]["RouterError"]["properties"]["error_type"]["enum"]
    assert sorted(documented) == sorted(re.findall(r'return "(\w+)"', inspect.getsource(bucket)))


@pytest.mark.parametrize(("api", "codes"), [("jobs", JobsErrorCode), ("registry", ErrorName), ("admin", ErrorCode)])
def test_documented_codes_are_those_that_exist(api: str, codes: Any) -> None:
    """Each code of an error is one that the API has words for; the other way round, the types see to it."""
    source = (PACKAGE / "api" / api / "errors.py").read_text("utf-8")
    worded = set(re.findall(r'_Worded\(\s*(?:\d{3}|METHOD_NOT_ALLOWED), "(\w+)"', source))
    assert sorted(codes.__args__) == sorted(worded)


def test_only_an_open_jobs_api_needs_no_credential() -> None:
    """Only the jobs API can be open, and says so where it is."""
    opened: Any = openapi_document(Served(HeaderNames(), "1", has_open_jobs=True))
    without = {
        operation["operationId"]
        for methods in opened["paths"].values()
        for operation in methods.values()
        if {} in operation["security"]
    }
    assert without == {f"jobs_{route.name}" for route in jobs.API.routes}
    assert not any({} in operation["security"] for operation in _operations())


def test_absent_api_is_not_documented() -> None:
    """Without an engine there are no jobs, and neither API of them."""
    without: Any = openapi_document(Served(HeaderNames(), "1", serves_workflows=False))
    assert [path for path in without["paths"] if path.startswith("/api") and "/admin/" not in path] == []
    assert set(_references(without)) <= {
        f"#/components/{kind}/{name}" for kind, named in without["components"].items() for name in named
    }


def test_objects_without_named_members_may_have_any() -> None:
    """A generated client does not take `AnyObject` for an object that is always empty."""
    closed = [
        part
        for part in _parts(_DOCUMENT)
        if part.get("type") == "object" and "properties" not in part and "additionalProperties" not in part
    ]
    assert closed == []


def test_lists_say_what_they_hold() -> None:
    """A generator leaves out every type in which a list does not."""
    unsaid = [
        part for part in _parts(_DOCUMENT) if part.get("type") == "array" and not {"items", "prefixItems"} & {*part}
    ]
    assert unsaid == []


def test_types_of_a_generated_client_have_names_of_their_own() -> None:
    """A class is named by a title, or by its class and member where the member has a list of values."""
    schemas = _DOCUMENT["components"]["schemas"]
    titles = [schema.get("title", name) for name, schema in schemas.items()]
    assert len(titles) == len({*titles})
    assert [name for name in schemas if "." in name] == []
    members = {
        f"{name}{''.join(word.title() for word in member.split('_'))}": schema["properties"][member]
        for name, schema in schemas.items()
        for member in schema.get("properties", {})
    }
    assert [name for name, member in members.items() if "enum" in member and name in schemas] == []


def test_every_body_and_answer_in_json_has_an_example_that_fits_it() -> None:
    """The example is valid under its own schema; only what may be any value has none."""
    bodies = [one["requestBody"] for one in _operations() if "requestBody" in one]
    answers = [answer for one in _operations() for answer in one["responses"].values()]
    every = [*bodies, *answers, *_DOCUMENT["components"]["responses"].values()]
    contents = [content for one in every for content in one.get("content", {}).values()]
    bare = [one["schema"] for one in contents if "example" not in one and "type" in one["schema"]]
    assert [schema for schema in bare if schema.get("format") != "binary" and schema["type"] != "string"] == []
    shown = [one for one in contents if "example" in one]
    assert len(shown) > len(bare)
    for one in shown:
        whole = {**one["schema"], "components": _DOCUMENT["components"]}
        jsonschema_rs.Draft202012Validator(whole).validate(one["example"])


def test_answer_of_any_type_is_bytes() -> None:
    """A generated client does not read a file as JSON, and one that knows no `*/*` reads it as bytes."""
    contents = [
        answer["content"] for one in _operations() for answer in one["responses"].values() if "content" in answer
    ]
    answers = [content["*/*"]["schema"] for content in contents if "*/*" in content]
    assert answers
    assert all(schema == {"type": "string", "format": "binary"} for schema in answers)
    assert all("application/octet-stream" in content for content in contents if "*/*" in content)


def test_filter_by_labels_is_one_parameter() -> None:
    """A generated client that is given labels sends `metadata[team]=blue`, which is what the list filters by."""
    listing = next(
        one for one in _operations() if any(part["name"] == "metadata" for part in one.get("parameters", ()))
    )
    found = next(part for part in listing["parameters"] if part["name"] == "metadata")
    assert (found["style"], found["explode"]) == ("deepObject", True)
    assert found["schema"]["additionalProperties"]["type"] == "string"


def _parts(part: Any) -> Iterator[Mapping[str, Any]]:
    """Every object within a part of the document."""
    if isinstance(part, Mapping):
        yield part
    for inner in part.values() if isinstance(part, Mapping) else part if isinstance(part, list | tuple) else ():
        yield from _parts(inner)


def _operations() -> Iterator[Mapping[str, Any]]:
    return (operation for methods in _DOCUMENT["paths"].values() for operation in methods.values())


def _references(part: Any) -> Iterator[str]:
    match part:
        case {"$ref": str(reference)}:
            yield reference
        case Mapping():
            for inner in part.values():
                yield from _references(inner)
        case list() | tuple():
            for inner in part:
                yield from _references(inner)
        case _:
            pass
