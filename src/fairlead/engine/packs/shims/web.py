"""`aiohttp` where it is not installed: packs import it for routes, which are not served anyway."""


class NotServed:
    """Any name of the module. It can be named and derived from, but not called."""

    def __init__(self, *_: object, **__: object) -> None:
        raise RuntimeError("aiohttp is not installed here, and routes of node packs are not served")


def attribute(name: str) -> object:
    """Any attribute of the module. AttributeError for those that every module has or lacks by itself."""
    if name.startswith("__"):
        raise AttributeError(name)
    return NotServed
