"""A partner's own words about a failure, found in any of its answers, and made safe to show."""

from collections.abc import Iterator, Sequence
from typing import Final

from fairlead.domain.pointers import Pointer, first
from fairlead.http_client.outcomes import Reply

REASON_MAX: Final = 300
_TELLING: Final = (
    *("error_message", "message", "msg", "detail", "failure_reason", "fail_reason", "reason", "failure"),
    *("task_status_msg", "status_msg", "error", "error_description", "description", "title"),
)
"""Members that hold words about a failure, the most telling first."""
_OF_THE_CALLER: Final = frozenset({"input", "inputs", "parameters", "prompt", "request", "body"})
"""Members in which partners repeat what they were sent."""
_EMPTY: Final = frozenset({"error", "failed", "fail", "failure", "ok", "success", "succeed", "succeeded"})
"""Words that say no more than the status does."""
_SEARCHED_MAX: Final = 200
_LIST_MAX: Final = 3
_PLAIN: Final = "text/plain"


def words_of(reply: Reply, document: object, at: Pointer | None = None) -> str | None:
    """What a partner's answer says of a failure, at a place where that is known; None where nothing is found.

    Secrets must have been taken out of the answer.
    """
    if at is not None and (told := sanitize(first(document, at))) is not None:
        return told
    if isinstance(document, dict | list):
        return next(_found(document), None)
    if reply.headers.get("content-type", "").partition(";")[0].strip().lower() != _PLAIN:
        return None
    return sanitize(reply.content[: REASON_MAX * 4].decode("utf-8", "replace"))


def sanitize(text: object) -> str | None:
    """A partner's words made safe to show: one line, no control characters, no URLs with their queries, bounded."""
    if not isinstance(text, str):
        return None
    words = "".join(char if char.isprintable() else " " for char in text[: REASON_MAX * 4]).split()
    plain = " ".join(_without_query(word) for word in words)[:REASON_MAX]
    return plain or None


def _found(document: object) -> Iterator[str]:
    """The words in a document, those of its outer members first."""
    level: Sequence[object] = [document]
    searched = 0
    while level and searched < _SEARCHED_MAX:
        searched += len(level)
        members = [one for one in level if isinstance(one, dict)]
        told = (sanitize(one.get(name)) for one in members for name in _TELLING)
        yield from (words for words in told if words is not None and words.strip(".!").lower() not in _EMPTY)
        below = [value for one in members for name, value in one.items() if name not in _OF_THE_CALLER]
        below += [value for one in level if isinstance(one, list) for value in one[:_LIST_MAX]]
        level = [value for value in below if isinstance(value, dict | list)][:_SEARCHED_MAX]


def _without_query(word: str) -> str:
    """Links lose their query and fragment, which may be secret."""
    return word.partition("?")[0].partition("#")[0] if "://" in word else word
