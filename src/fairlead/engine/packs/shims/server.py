"""`server.PromptServer` as packs import it. Packs have no server here: what they send goes to the job's watchers."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from fairlead.engine.nodes.node_context import current_context
from fairlead.engine.packs.shims.progress import show_preview, tell_progress

F = TypeVar("F", bound=Callable[..., object])
_PREVIEW_EVENTS: Final = frozenset({1, 2, 4})


class BinaryEventTypes:
    """The kinds of binary messages, by number."""

    PREVIEW_IMAGE: Final = 1
    UNENCODED_PREVIEW_IMAGE: Final = 2
    TEXT: Final = 3
    PREVIEW_IMAGE_WITH_METADATA: Final = 4


class Routes:
    """Takes the routes that packs add, and counts them: routes of packs are not served."""

    def __init__(self) -> None:
        self.count = 0

    def _route(self, path: str, **options: object) -> Callable[[F], F]:
        del path, options
        self.count += 1
        return lambda handler: handler

    get = post = put = patch = delete = head = options = view = _route

    def static(self, prefix: str, path: object, **options: object) -> None:
        """A folder of files, not served either."""
        del prefix, path, options
        self.count += 1

    add_get = add_post = add_static = static

    def add_route(self, method: str, path: str, handler: object, **options: object) -> None:
        """A route, not served either."""
        del method, path, handler, options
        self.count += 1


class Application:
    """The web application of the server, to which packs add routes in another way."""

    def __init__(self, routes: Routes) -> None:
        self.router: Final = routes
        self.middlewares: Final[list[object]] = []

    def add_routes(self, routes: Any) -> None:
        """Take routes."""
        self.router.count += len(routes)


class PromptServer:
    """What packs ask of the server; `instance` is the only one."""

    instance: "PromptServer"

    def __init__(self) -> None:
        self.routes: Final = Routes()
        self.app: Final = Application(self.routes)
        self.supports: Final = ["custom_nodes_from_web"]
        self.client_id: str | None = None
        self.number = 0

    @property
    def last_node_id(self) -> str | None:
        """The node that is being executed."""
        context = current_context()
        return None if context is None else context.place.node

    @property
    def last_prompt_id(self) -> str | None:
        """A node knows nothing of its job."""
        return None

    def add_on_prompt_handler(self, handler: Callable[..., object]) -> None:
        """Take a function that would change submitted workflows, and ignore it: workflows are executed unchanged."""

    def send_sync(self, event: object, data: object, sid: str | None = None) -> None:
        """Send to the watchers: progress, previews and text arrive, messages for a pack's own scripts do not."""
        del sid
        context = current_context()
        if context is None:
            return
        if event == "progress" and isinstance(data, Mapping):
            tell_progress(data.get("value", 0), data.get("max", 1), None, context)
        elif event in _PREVIEW_EVENTS and isinstance(data, tuple):
            show_preview(data[0] if event == BinaryEventTypes.PREVIEW_IMAGE_WITH_METADATA else data, context)

    async def send(self, event: object, data: object, sid: str | None = None) -> None:
        """The same, to be awaited."""
        self.send_sync(event, data, sid)

    def send_progress_text(self, text: str | bytes, node_id: str, sid: str | None = None) -> None:
        """Send the watchers a text about the node that is being executed."""
        del node_id, sid
        context = current_context()
        if context is not None:
            context.say(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)


PromptServer.instance = PromptServer()
