"""The OpenAPI 3.1 document of an installation: what is said of its routes, and the schemas of what they exchange."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from fairlead.surfaces.cloud.description import describe_cloud
from fairlead.surfaces.jobs.description import describe_jobs
from fairlead.surfaces.openapi.description import (
    ERRORS,
    HEADERS,
    JSON,
    Access,
    Answer,
    DescribedRoute,
    Description,
    Nothing,
    Parameter,
)
from fairlead.surfaces.openapi.served import Served
from fairlead.surfaces.openapi.service_routes import describe_service_routes
from fairlead.surfaces.registry.description import describe_registry
from fairlead.surfaces.router.description import describe_router

Schema = Mapping[str, Any]

_VERSION: Final = "3.1.0"
_SCHEMAS: Final = "#/components/schemas/{name}"
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
}
_EITHER: Final[Sequence[Mapping[str, Sequence[str]]]] = ({"apiKey": ()}, {"bearer": ()})


def descriptions(served: Served) -> Sequence[Description]:
    """Every surface that an installation has."""
    workflows = (describe_jobs(), describe_cloud()) if served.workflows else ()
    return (describe_router(), *workflows, describe_registry(served.registry_prefix), describe_service_routes())


def openapi_document(served: Served) -> Mapping[str, Any]:
    """The document of an installation."""
    surfaces = descriptions(served)
    types = list(_types(surfaces))
    schemas, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS)
    writer = _Writer(served, {id(type_): schema for type_, schema in zip(types, schemas, strict=True)})
    paths: dict[str, dict[str, Any]] = {}
    for surface in surfaces:
        for route in surface.routes:
            path = _CONVERTOR.sub(r"{\1}", route.path)
            paths.setdefault(path, {})[route.method.lower()] = writer.operation(surface, route)
    return {
        "openapi": _VERSION,
        "info": {
            "title": "Fairlead",
            "version": served.version,
            "summary": _SUMMARY,
            "description": _ABOUT,
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": surface.title, "description": surface.summary} for surface in surfaces],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {name: answer for surface in surfaces for name, answer in writer.errors(surface)},
            "headers": {_component(name): writer.header(name) for name in HEADERS},
            "securitySchemes": _SCHEMES,
        },
    }


def _types(surfaces: Sequence[Description]) -> Iterator[Any]:
    """Every type that stands for a schema."""
    for surface in surfaces:
        yield surface.error
        yield from surface.errors_of.values()
        yield from (parameter.type for parameter in surface.path_parameters.values())
        for operation in (route.operation for route in surface.routes):
            yield from (parameter.type for parameter in operation.parameters)
            yield from () if operation.body is None else (operation.body.type,)
            yield from (answer.type for answer in operation.answers.values() if answer.type is not Nothing)
    yield from (header.type for header in HEADERS.values())


class _Writer:
    """Writes the parts of a document, with the schemas that the types were given."""

    def __init__(self, served: Served, schemas: Mapping[int, Schema]) -> None:
        self._served = served
        self._schemas = schemas

    def operation(self, surface: Description, route: DescribedRoute) -> Mapping[str, Any]:
        """A route as the document has it."""
        operation = route.operation
        named = [surface.path_parameters[name] for name in _NAME.findall(_CONVERTOR.sub(r"{\1}", route.path))]
        written: dict[str, Any] = {"operationId": route.name, "tags": [surface.title], "summary": operation.summary}
        if operation.description:
            written["description"] = operation.description
        if parameters := [*named, *operation.parameters]:
            written["parameters"] = [self._parameter(parameter) for parameter in parameters]
        if (body := operation.body) is not None:
            content = {body.media_type: {"schema": self._schemas[id(body.type)]}}
            written["requestBody"] = {"required": body.required, "content": content}
        return {**written, "responses": self._responses(surface, route), "security": self._security(operation.access)}

    def errors(self, surface: Description) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The errors of a surface, by the names of their components."""
        for status in sorted({status for route in surface.routes for status in _refusals(surface, route)}):
            headers = (*surface.error_headers, *surface.headers_of.get(status, ()))
            answer = Answer(ERRORS[status], surface.errors_of.get(status, surface.error), (JSON,), headers)
            yield _error_name(surface, status), self._answer(answer)

    def header(self, name: str) -> Mapping[str, Any]:
        """A header of answers."""
        return {"description": HEADERS[name].summary, "schema": self._schemas[id(HEADERS[name].type)]}

    def _parameter(self, parameter: Parameter) -> Mapping[str, Any]:
        return {
            "name": parameter.name,
            "in": parameter.where,
            "required": parameter.required or parameter.where == "path",
            "description": parameter.summary,
            "schema": self._schemas[id(parameter.type)],
        }

    def _responses(self, surface: Description, route: DescribedRoute) -> Mapping[str, Any]:
        answers = {status: self._answer(answer) for status, answer in route.operation.answers.items()}
        refusals = {
            status: {"$ref": f"#/components/responses/{_error_name(surface, status)}"}
            for status in _refusals(surface, route)
        }
        return {str(status): answer for status, answer in sorted({**refusals, **answers}.items())}

    def _answer(self, answer: Answer) -> Mapping[str, Any]:
        headers = dict(self._header(name) for name in ("request_id!", *answer.headers))
        written = {"description": answer.summary, "headers": headers}
        if answer.type is Nothing:
            return written
        schema = self._schemas[id(answer.type)]
        return {**written, "content": {media_type: {"schema": schema} for media_type in answer.media_types}}

    def _header(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """A header by its name on the wire. One that always comes cannot be a reference, and is written out."""
        bare = name.removesuffix("!")
        spelled = getattr(self._served.names, bare, bare.encode()).decode("ascii").title()
        if name == bare:
            return spelled, {"$ref": f"#/components/headers/{_component(bare)}"}
        return spelled, {**self.header(bare), "required": True}

    def _security(self, access: Access) -> Sequence[Mapping[str, Sequence[str]]]:
        match access:
            case Access.CREDENTIAL:
                return _EITHER
            case Access.OPENED:
                return (*_EITHER, {}) if self._served.open_jobs else _EITHER
            case Access.TOKEN:
                return ({"token": ()},)
            case Access.NOTHING:
                return ()


def _refusals(surface: Description, route: DescribedRoute) -> Sequence[int]:
    """The statuses of errors that a route may answer with."""
    own = route.operation
    return [status for status in (*own.errors, *surface.refusals[own.access]) if status not in own.answers]


def _error_name(surface: Description, status: int) -> str:
    return f"{surface.name}_{status}"


def _component(name: str) -> str:
    """A header's name in the document's own list, whatever it is spelled like on the wire."""
    return name.replace("_", "-")
