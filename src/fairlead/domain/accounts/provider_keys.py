"""Workspaces' own keys at providers (R-17): what may be one, what may be shown of one, and who manages them."""

import re
from typing import Final

import jiter
import msgspec

from fairlead.domain.accounts.callers import Caller
from fairlead.domain.faults import Fault, Forbidden

KEY_MAX: Final = 4096
DOCUMENT_BYTES_MAX: Final = 16 * 1024
DOCUMENT_HINT: Final = "{…}"
_HINT_MAX: Final = 4
_HINTED_OF: Final = 4
_KEY: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")


class StoredKey(msgspec.Struct, frozen=True):
    """What may be shown of a key: its provider, its last characters, and when it was stored in ms since 1970."""

    provider: str
    hint: str
    created_at: int


def is_key(text: str) -> bool:
    """Whether a text may be a key: at most 4096 printable ASCII characters with none of them a space at either end."""
    return len(text) <= KEY_MAX and _KEY.fullmatch(text) is not None


def is_key_document(text: str) -> bool:
    """Whether a text is one JSON object of at most 16 KiB, as service accounts are handed out; it may have lines."""
    if len(text) > DOCUMENT_BYTES_MAX:
        return False
    content = text.encode("utf-8", "surrogatepass")  # a lone surrogate is then bad UTF-8, which the reader refuses
    if len(content) > DOCUMENT_BYTES_MAX:
        return False
    try:
        return isinstance(jiter.from_json(content, allow_inf_nan=False, catch_duplicate_keys=True), dict)
    except ValueError:
        return False


def key_hint(text: str) -> str:
    """What distinguishes a key: its last four characters, or fewer where four are more than a quarter of it."""
    if is_key_document(text):
        return DOCUMENT_HINT
    shown = min(_HINT_MAX, len(text) // _HINTED_OF)
    return text[len(text) - shown :]


def refuse_managing(caller: Caller) -> Fault | None:
    """Refuse a credential that is limited to some models: its holder may run those, not change what all runs use."""
    if caller.credential_models.allowed is None:
        return None
    return Forbidden("This credential is limited to some models; provider keys need one that is not.")
