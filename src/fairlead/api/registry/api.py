"""The registry as a whole: its paths at the root, and its routes."""

from typing import Final

from fairlead.api.http.api import HttpApi, routes_of
from fairlead.api.http.route import Access, Api, bind_handlers, path_parameters
from fairlead.api.registry.errors import refusal
from fairlead.api.registry.handlers import RegistryHandlers
from fairlead.api.registry.routes import ROUTES
from fairlead.api.registry.wire import ShownError
from fairlead.observing.observations import Observer

_HEADS: Final = frozenset(route.path.split("/")[1] for route in ROUTES)
"""The first segments of all paths; unknown paths below them are refused by the registry."""
_USUAL: Final = (401, 403, 429, 500, 503)


def registry_api(prefix: str = "") -> Api:
    """The registry, whose paths begin with a prefix."""
    return Api(
        name="registry",
        title="Registry",
        summary="Publishers, and the nodes that they have published.",
        error=ShownError,
        routes=ROUTES,
        path_parameters=path_parameters(
            publisher_id="The id of a publisher.",
            node_id="The id of a node.",
            archive_id="The id of a version: its node, `@`, and its number.",
        ),
        refusals={Access.CREDENTIAL: _USUAL, Access.BODY: _USUAL, Access.NOTHING: (500, 503)},
        headers_of={416: ("content-range!",), 429: ("retry-after!",), 503: ("retry-after",)},
        prefix=prefix,
    )


class RegistryApi(HttpApi):
    """Answers the registry's paths, all of which begin with `prefix`."""

    def __init__(self, handlers: RegistryHandlers, request_id: bytes, observe: Observer, prefix: str = "") -> None:
        routes = routes_of(ROUTES, bind_handlers([handlers]), handlers.authorize, prefix)
        super().__init__(routes, refusal, request_id, observe)
        self._prefix = prefix

    def serves(self, path: str) -> bool:
        """Whether a path is one of the registry's."""
        rest = path.removeprefix(self._prefix)
        return path.startswith(self._prefix) and rest[:1] == "/" and rest[1:].partition("/")[0] in _HEADS
