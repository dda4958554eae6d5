"""Partners' answers, decoded: the large ones by readers in processes of their own (document_readers.py)."""

import asyncio
import secrets
from typing import Any, Final

import jiter

from fairlead.document_readers import INLINE_BYTES, DocumentReaders, NoReaderError, UnreadableDocumentError
from fairlead.documents.examining import ExaminedAnswer, OfAnswer
from fairlead.documents.outline import LargeDocument, LongText
from fairlead.documents.values import has_more_values
from fairlead.domain.pointers import MISSING
from fairlead.http_client.outcomes import Reply
from fairlead.providers.redaction import ReplyRedactor

_SEARCHED_CHARACTERS: Final = 64 * 1024
_NO_SECRETS: Final = ReplyRedactor()
_UNREAD: Final = ExaminedAnswer(is_uneven=True)


class _AnswerText(LongText):
    """A long text of an answer. Words of a partner's are looked for in its beginning alone."""

    __slots__ = ()

    def lower(self) -> str:
        return self[:_SEARCHED_CHARACTERS].lower()


class LargeAnswer(LargeDocument):
    """A large answer, by its outline."""

    __slots__ = ()

    def decoded(self, outline: bytes) -> object:
        """What an outline says, perhaps a changed one, with the long texts."""
        return self.with_texts(_decode(outline), _AnswerText)


class ReadReply(Reply, frozen=True):
    """An answer, and the document in it: MISSING where it is no JSON. The long texts of a `large` one stay in it."""

    document: Any = MISSING
    large: LargeAnswer | None = None


def is_json(reply: Reply) -> bool:
    """Whether an answer says that it is JSON."""
    return "json" in reply.headers.get("content-type", "").lower()


def read_here(reply: Reply) -> ReadReply:
    """An answer that is small enough to be decoded on the event loop."""
    return ReadReply(reply.status, reply.headers, reply.content, _decode(reply.content) if is_json(reply) else MISSING)


class AnswerDecoder:
    """Takes our credentials out of partners' answers, and decodes them.

    The readers must take any number of them: a result that is not read may have been paid for.
    """

    def __init__(self, readers: DocumentReaders) -> None:
        self._readers = readers

    async def read(
        self, owner_id: str, reply: Reply, redactor: ReplyRedactor = _NO_SECRETS, values_max: int | None = None
    ) -> ReadReply:
        """An answer for an owner, such as a workspace, without the secrets of a redactor.

        One that cannot be read is as good as none, and so is JSON with more than `values_max` values.
        """
        if len(reply.content) <= INLINE_BYTES:
            # A value takes a byte: most answers need no counting.
            if values_max is not None and len(reply.content) > values_max and is_json(reply):
                content = b"" if has_more_values(reply.content, values_max) else reply.content
                reply = Reply(reply.status, reply.headers, content)
            return read_here(redactor.clean(reply))
        asked = OfAnswer(secrets.token_hex(16), is_json(reply), redactor.secrets, values_max)
        if not (asked.is_json or asked.secrets):
            return read_here(reply)
        try:
            found, redacted = await self._readers.ask(owner_id, asked, reply.content, ExaminedAnswer)
        except (NoReaderError, UnreadableDocumentError):
            if not asked.is_json:  # nothing has to be made of it, and it may have been paid for
                clean = redactor.with_content(reply, await asyncio.to_thread(redactor.redact, reply.content))
                return ReadReply(clean.status, clean.headers, clean.content)
            found, redacted = _UNREAD, ()
        if found.is_secret or found.is_uneven:
            return read_here(redactor.with_content(reply, None if found.is_secret else b""))
        clean = redactor.with_content(reply, redacted[0] if redacted else reply.content)
        if not found.is_json:
            return ReadReply(clean.status, clean.headers, clean.content)
        large = LargeAnswer(clean.content, found.outline.encode(), found.spans, asked.nonce)
        return ReadReply(clean.status, clean.headers, clean.content, large.decoded(large.outline), large)


def _decode(content: bytes) -> object:
    """The decoded bytes, MISSING where they are no JSON; of several members of one name the last counts."""
    try:
        return jiter.from_json(content, allow_inf_nan=False, cache_mode="keys")
    except ValueError:
        return MISSING
