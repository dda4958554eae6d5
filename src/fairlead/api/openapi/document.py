"""The OpenAPI 3.1 document of an installation: its routes, and the schemas of what they exchange."""

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from fairlead.api import routes as service
from fairlead.api.admin.api import API as ADMIN_API
from fairlead.api.http.route import ANYTHING, JSON, Access, Answer, Api, Nothing, Parameter, Route
from fairlead.api.openapi.examples import example_of
from fairlead.api.openapi.handlers import Served
from fairlead.api.registry.api import registry_api
from fairlead.api.router import routes as router

ERRORS: Final[Mapping[int, str]] = MappingProxyType(
    {
        400: "The request cannot be used; the message says why.",
        401: "There is no credential, or it is not valid.",
        402: "Too little is left to pay with, or a budget is spent.",
        403: "The credential does not allow this.",
        404: "There is no such thing, or it is somebody else's.",
        409: "This goes against what there is already, or what is under way.",
        410: "This was here and is no longer kept.",
        413: "The body, or the file in it, is too large.",
        416: "The part that was asked for begins behind the end.",
        422: "The request can be read and is not right; the message says why.",
        429: "Too much, or too often; try again later.",
        451: "These bytes are not taken in here.",
        500: "The server failed. The request id names the failure in its log.",
        501: "This installation does not do that.",
        502: "The partner failed, or its answer is not a result.",
        503: "Something that this needs is away or has no room; try again later.",
        504: "The partner, or the run, took too long.",
    }
)
"""What each status of an error means, whichever API answers it."""
Schema = Mapping[str, object]
_VERSION: Final = "3.1.0"
_REFERENCE: Final = "#/components/schemas/"
_SCHEMAS: Final = _REFERENCE + "{name}"
_CONVERTOR: Final = re.compile(r"\{(\w+):\w+\}")
_NAME: Final = re.compile(r"\{(\w+)\}")
_SUMMARY: Final = "A control plane for generative media: a model router with exact books, and a workflow platform."
_ABOUT: Final = """\
Every answer carries the id of its call. A path that is here answers a method that is not with 405 and `Allow`; \
every `GET` may be asked as `HEAD`. The bodies of runs are described by each model's own document, \
`/v2/models/{provider}/{model}/openapi.json`."""
_SCHEMES: Final = {
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "An API key."},
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a token of the service's issuer."},
    "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "A token of the issuer."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "fairlead_session",
        "description": "The session of a member, `__Host-fairlead_session` by https; changes also need X-CSRF-Token.",
    },
}
_OCTETS: Final = "application/octet-stream"
_BINARY: Final = {"type": "string", "format": "binary"}
"""Bytes of any type: without a schema, generators read them as JSON, and some read no type but one they know."""
_EITHER: Final[Sequence[Mapping[str, Sequence[str]]]] = ({"apiKey": ()}, {"bearer": ()})


class HeaderShown(msgspec.Struct, frozen=True):
    """A header of answers, and the schema of its value."""

    summary: str
    type: Any = str


HEADERS: Final[Mapping[str, HeaderShown]] = MappingProxyType(
    {
        "request_id": HeaderShown("The id of the call; it names the call in the log."),
        "error_type": HeaderShown("The bucket of the error."),
        "upstream_status": HeaderShown("The partner's own status.", int),
        "upstream_detail": HeaderShown("The partner's own reason, as it is in printable ASCII, else a JSON string."),
        "refusal_subject": HeaderShown("What the partner has refused: the input or the output."),
        "credits_used": HeaderShown("What the run was charged, in credits."),
        "x-litellm-response-cost": HeaderShown("What the run was charged, in dollars, for a gateway in front."),
        "x-litellm-total-tokens": HeaderShown("Always 0, for the same gateway: runs are not paid by it.", int),
        "router_dropped_params": HeaderShown("What the translation left out: a JSON array of strings."),
        "router_fallback_provider": HeaderShown("The provider that served the run in place of another."),
        "idempotent-replayed": HeaderShown("`true` where this answer was given before."),
        "retry-after": HeaderShown("In how many seconds to try again.", int),
        "x-concurrency-limit": HeaderShown("How many runs the workspace may have in flight.", int),
        "x-concurrency-current": HeaderShown("How many it has.", int),
        "x-concurrency-remaining": HeaderShown("How many more it may begin.", int),
        "x-committed-spend-limit": HeaderShown("What runs in flight may cost in all, in US cents.", int),
        "x-committed-spend-current": HeaderShown("What they may cost already.", int),
        "x-committed-spend-remaining": HeaderShown("What more may be begun.", int),
        "etag": HeaderShown("The entity tag."),
        "cache-control": HeaderShown("Who may keep this, and for how long."),
        "content-range": HeaderShown("Which part this is, or how many bytes there are."),
        "content-disposition": HeaderShown("What the file is called, and whether to show it."),
        "accept-ranges": HeaderShown("`bytes`: parts may be asked for."),
        "link": HeaderShown('The page after this one, with `rel="next"`; absent on the last.'),
        "location": HeaderShown("Where the file is: a link that is its own credential."),
    }
)
"""Every header that is documented. Names with underscores are the service's own, spelled after its brand."""


def apis(served: Served) -> Sequence[Api]:
    """Every API that an installation has."""
    workflows = _workflow_apis() if served.serves_workflows else ()
    return (router.API, *workflows, registry_api(served.registry_prefix), ADMIN_API, service.API)


def _workflow_apis() -> Sequence[Api]:
    # Their handlers lead to the engine, which an installation without them does not load.
    from fairlead.api.cloud.api import API as CLOUD_API  # noqa: PLC0415 -- see above
    from fairlead.api.jobs.api import API as JOBS_API  # noqa: PLC0415 -- see above

    return JOBS_API, CLOUD_API


def openapi_document(served: Served) -> Mapping[str, object]:
    """The document of an installation."""
    every = apis(served)
    types = list(_types(every))
    schemas, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS)
    _say_for_generators([*schemas, *components.values()])
    writer = _Writer(served, {id(type_): schema for type_, schema in zip(types, schemas, strict=True)}, components)
    paths: dict[str, dict[str, object]] = {}
    for api in every:
        for route in api.routes:
            for path, operation in writer.operations(api, route):
                paths.setdefault(path, {})[route.method.lower()] = operation
    document = {
        "openapi": _VERSION,
        "info": {
            "title": "Fairlead",
            "version": served.version,
            "summary": _SUMMARY,
            "description": _ABOUT,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": api.title, "description": api.summary} for api in every],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {name: answer for api in every for name, answer in writer.errors(api)},
            "headers": {_component(name): writer.header(name) for name in HEADERS},
            "securitySchemes": _SCHEMES,
        },
    }
    names = {name: _own_name(name) for name in components if "." in name}
    return {part: _rename(written, names) for part, written in document.items()}


def _types(every: Sequence[Api]) -> Iterator[object]:
    """Every type that stands for a schema."""
    for api in every:
        yield api.error
        yield from api.errors_of.values()
        yield from (parameter.type for parameter in api.path_parameters.values())
        for route in api.routes:
            yield from (parameter.type for parameter in route.parameters)
            yield from () if route.body is None else (route.body.type,)
            yield from (answer.type for answer in route.answers.values() if answer.type is not Nothing)
    yield from (header.type for header in HEADERS.values())


def _say_for_generators(schemas: list[Any]) -> None:
    """Say of objects without named members that they may have any, and of lists that they may have anything.

    Some generators take such an object for one that is always empty, and leave out what has such a list.
    """
    for schema in schemas:
        if isinstance(schema, list):
            _say_for_generators(schema)
        elif isinstance(schema, dict):
            types = schema.get("type", ())
            kinds = [types] if isinstance(types, str) else types
            if "object" in kinds and "properties" not in schema:
                schema.setdefault("additionalProperties", True)
            if "array" in kinds and "prefixItems" not in schema:
                schema.setdefault("items", {})
            _say_for_generators(list(schema.values()))


def _own_name(component: str) -> str:
    """What a type is called of which several APIs have one: after its API, as in `AdminJobShown`."""
    api, *_, name = component.removeprefix("fairlead.api.").split(".")
    return api.title() + name


def _rename(part: object, names: Mapping[str, str]) -> object:
    """The part of a document with its components under other names, also in references and titles."""
    match part:
        case Mapping():
            renamed = {names.get(key, key): _rename(inner, names) for key, inner in part.items()}
            for name in renamed.keys() & {*names.values()}:
                if isinstance(schema := renamed[name], dict):
                    schema["title"] = name
            return renamed
        case list() | tuple():
            return [_rename(inner, names) for inner in part]
        case str() if part.startswith(_REFERENCE):
            name = part.removeprefix(_REFERENCE)
            return _REFERENCE + names.get(name, name)
        case _:
            return part


class _Writer:
    """Writes the parts of a document, with the schemas that the types were given."""

    def __init__(self, served: Served, schemas: Mapping[int, Schema], components: Schema) -> None:
        self._served = served
        self._schemas = schemas
        self._components = components

    def operations(self, api: Api, route: Route) -> Iterator[tuple[str, Mapping[str, object]]]:
        """A route as the document has it, at each of its paths."""
        written = self._operation(api, route)
        for number, path in enumerate(route.paths):
            name = f"{api.name}_{'root_' if number else ''}{route.name}"
            said = {"description": f"The same as `{route.path}`."} if number else {}
            yield _CONVERTOR.sub(r"{\1}", api.prefix + path), {**written, "operationId": name, **said}

    def _operation(self, api: Api, route: Route) -> Mapping[str, object]:
        named = [api.path_parameters[name] for name in _NAME.findall(_CONVERTOR.sub(r"{\1}", route.path))]
        written: dict[str, object] = {"tags": [api.title], "summary": route.summary}
        if route.description:
            written["description"] = route.description
        if parameters := [*named, *route.parameters]:
            written["parameters"] = [self._parameter(parameter) for parameter in parameters]
        if (body := route.body) is not None:
            content = {body.media_type: self._content(self._schemas[id(body.type)])}
            written["requestBody"] = {"required": body.is_required, "content": content}
        return {**written, "responses": self._responses(api, route), "security": self._security(route.access)}

    def errors(self, api: Api) -> Iterator[tuple[str, Mapping[str, object]]]:
        """The errors of an API, by the names of their components."""
        for status in sorted({status for route in api.routes for status in _refusals(api, route)}):
            headers = (*api.error_headers, *api.headers_of.get(status, ()))
            answer = Answer(ERRORS[status], api.errors_of.get(status, api.error), (JSON,), headers)
            yield _error_name(api, status), self._answer(answer)

    def header(self, name: str) -> Mapping[str, object]:
        """A header of answers."""
        return {"description": HEADERS[name].summary, "schema": self._schemas[id(HEADERS[name].type)]}

    def _parameter(self, parameter: Parameter) -> Mapping[str, object]:
        return {
            "name": parameter.name,
            "in": parameter.where,
            "required": parameter.is_required or parameter.where == "path",
            "description": parameter.summary,
            "schema": self._schemas[id(parameter.type)],
            **({"style": "deepObject", "explode": True} if parameter.is_deep else {}),
        }

    def _responses(self, api: Api, route: Route) -> Mapping[str, object]:
        answers = {status: self._answer(answer) for status, answer in route.answers.items()}
        refusals = {
            status: {"$ref": f"#/components/responses/{_error_name(api, status)}"} for status in _refusals(api, route)
        }
        return {str(status): answer for status, answer in sorted({**refusals, **answers}.items())}

    def _answer(self, answer: Answer) -> Mapping[str, object]:
        headers = dict(self._header(name) for name in ("request_id!", *answer.headers))
        written = {"description": answer.summary, "headers": headers}
        if answer.type is Nothing:
            return written
        schema = self._schemas[id(answer.type)]
        shown = self._content(schema)
        content = {media_type: shown for media_type in answer.media_types if media_type != ANYTHING}
        if ANYTHING in answer.media_types:
            content |= {media_type: {"schema": _BINARY} for media_type in (_OCTETS, ANYTHING)}
        return {**written, "content": content}

    def _content(self, schema: Schema) -> Schema:
        """A schema with an example; without one where anything or nothing but bytes fits it."""
        shown = example_of(schema, self._components)
        is_shown = shown is not None and schema.get("format") != "binary"
        return {"schema": schema, "example": shown} if is_shown else {"schema": schema}

    def _header(self, name: str) -> tuple[str, Mapping[str, object]]:
        """A header by its name on the wire. One that always comes cannot be a reference, and is written out."""
        bare = name.removesuffix("!")
        spelled = getattr(self._served.names, bare, bare.encode()).decode("ascii").title()
        if name == bare:
            return spelled, {"$ref": f"#/components/headers/{_component(bare)}"}
        return spelled, {**self.header(bare), "required": True}

    def _security(self, access: Access) -> Sequence[Mapping[str, Sequence[str]]]:
        match access:
            case Access.CREDENTIAL | Access.BODY:
                return _EITHER
            case Access.OPENED:
                return (*_EITHER, {}) if self._served.has_open_jobs else _EITHER
            case Access.TOKEN:
                return ({"token": ()},)
            case Access.MEMBER:
                return (*_EITHER, {"session": ()})
            case Access.NOTHING:
                return ()


def _refusals(api: Api, route: Route) -> Sequence[int]:
    """The statuses of errors that a route may answer with."""
    return [status for status in (*route.errors, *api.refusals[route.access]) if status not in route.answers]


def _error_name(api: Api, status: int) -> str:
    return f"{api.name}_{status}"


def _component(name: str) -> str:
    """A header's name in the document's own list, however it is spelled on the wire."""
    return name.replace("_", "-")
