"""`aiohttp` where it is not installed: packs import it for routes, which are not served anyway."""


class NotServed:
    """Anything of the module. It can be named and derived from, and not called."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError("aiohttp is not installed here, and routes of node packs are not served")


def attribute(name: str) -> object:
    """Whatever the module is asked for. AttributeError for what no module lacks."""
    if name.startswith("__"):
        raise AttributeError(name)
    return NotServed
