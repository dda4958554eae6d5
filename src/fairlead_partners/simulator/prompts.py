"""What is asked of a vendor in words, wherever its body has them: what a simulated picture shows."""

import json
import re
from collections.abc import Mapping
from contextvars import ContextVar

PROMPT_CHARACTERS_MAX = 2000
DEPTH_MAX = 24
_NAMES = ("prompt", "positiveprompt", "prompttext", "textprompt", "text", "content", "parts", "prompts")
_IN_A_FORM = re.compile(rb'name="(?:text_)?prompt"(?:\r\n[^\r\n]+)*\r\n\r\n([^\r]{1,2000})')

asked: ContextVar[bytes | Mapping[str, object]] = ContextVar("asked", default=b"")
"""The body of the call that is answered, or the request of the task that it asks about."""


def prompt() -> str:
    """Return what the current work was asked to show, in at most 2000 characters; empty where no words were sent."""
    body = asked.get()
    if isinstance(body, bytes):
        form = _IN_A_FORM.search(body)
        if form is not None:
            return form[1].decode("utf-8", "replace").strip()
        try:
            return _find(json.loads(body), DEPTH_MAX)
        except (ValueError, RecursionError):
            return ""
    return _find(body, DEPTH_MAX)


def _find(value: object, depth: int) -> str:
    """Find words under the names that vendors have for them, the nearest first."""
    if depth == 0:
        return ""
    if isinstance(value, list):
        return next((words for item in value if (words := _find(item, depth - 1))), "")
    if not isinstance(value, dict):
        return ""
    named = {re.sub("[^a-z]", "", str(name).lower()): item for name, item in value.items()}
    texts = (named.get(name) for name in _NAMES)
    words = next((text for text in texts if isinstance(text, str) and text.strip()), "")
    return words.strip()[:PROMPT_CHARACTERS_MAX] or _find(list(value.values()), depth - 1)
