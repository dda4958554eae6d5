"""How vendors want their keys: each function says what is wrong with the caller's, or None.

Any key will do that has no `invalid` in it.
"""

from collections.abc import Callable

from .vendor import Call

Authorize = Callable[[Call], str | None]


def check_key(key: str) -> str | None:
    """Say what is wrong with a key, if anything."""
    if not key.strip():
        return "Missing API key."
    return "Incorrect API key provided." if "invalid" in key.lower() else None


def header_key(name: str) -> Authorize:
    """Take the key from a header of its own, such as `x-key`."""

    def authorize(call: Call) -> str | None:
        return check_key(call.headers.get(name, ""))

    return authorize


def scheme(word: str) -> Authorize:
    """Take the key from `Authorization: <word> <key>`."""

    def authorize(call: Call) -> str | None:
        given, _, key = call.headers.get("authorization", "").partition(" ")
        return check_key(key if given.lower() == word.lower() else "")

    return authorize


bearer = scheme("Bearer")


def either(*ways: Authorize) -> Authorize:
    """Take the key in whichever of these ways it comes."""

    def authorize(call: Call) -> str | None:
        complaints = [way(call) for way in ways]
        return None if None in complaints else complaints[0]

    return authorize
