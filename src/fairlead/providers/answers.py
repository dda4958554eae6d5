"""Partners' answers, without our credentials and decoded: the large ones by readers of their own (document_readers.py).

A partner may repeat what it was shown: in the text of an error, in a link, in a header, even in a result. Everything of
a partner enters through here, so that nothing behind this point, be it a caller's answer, a log, a trace or the
database, has to know what is secret (S-10). An answer without a secret is passed on as it is, without a copy.
"""

import asyncio
import secrets
from collections.abc import Iterable
from typing import Any, Final

import jiter
import msgspec

from fairlead.document_readers import INLINE_BYTES, DocumentReaders, NoReaderError, UnreadableDocumentError
from fairlead.documents.examining import ExaminedAnswer, OfAnswer
from fairlead.documents.outline import LargeDocument, LongText
from fairlead.documents.redaction import Redactor
from fairlead.documents.values import has_more_values
from fairlead.domain.pointers import MISSING
from fairlead.http_client.outcomes import Reply

SECRET_CHARACTERS_MIN: Final = 8
"""Shorter texts keep nothing secret, and would be found in innocent words."""
_SEARCHED_CHARACTERS: Final = 64 * 1024
_UNREAD: Final = ExaminedAnswer(is_uneven=True)


class ReplyRedactor(Redactor):
    """Takes some secrets out of answers, from their headers as well as from their content.

    Texts that are too short to be secrets are left alone.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__(
            text.encode("utf-8", "surrogatepass") for text in secrets if len(text) >= SECRET_CHARACTERS_MIN
        )

    def clean(self, reply: Reply) -> Reply:
        """A small answer without the secrets: the same one where it has none of them.

        An answer that a secret cannot be taken out of keeps its status alone.
        """
        if not self.secrets:
            return reply
        # Nearly all have a single layer and no trace of a secret. Texts are searched in half the time of bytes.
        head = "\n".join(reply.headers.values())
        text = reply.content.decode("latin-1") + "\n" + head
        if "\\" not in text and "%" not in text and head.isascii():
            for hint in self.hint_texts:  # in half the time of `any`
                if hint in text:
                    break
            else:
                return reply
        return self.with_content(reply, self.redact(reply.content))

    def with_content(self, reply: Reply, content: bytes | None) -> Reply:
        """An answer with its redacted content, and its headers redacted too; its status alone where content is None."""
        if content is None:
            return Reply(reply.status, {}, b"")
        if self.may_hold("\n".join(reply.headers.values()).encode("utf-8", "surrogatepass")):
            headers = {name: self._header(value) for name, value in reply.headers.items()}
            return msgspec.structs.replace(reply, headers=headers, content=content)
        return reply if content is reply.content else msgspec.structs.replace(reply, content=content)

    def _header(self, value: str) -> str:
        given = value.encode("utf-8", "surrogatepass")
        cleaned = self.redact(given)
        if cleaned is given:
            return value
        return "" if cleaned is None else cleaned.decode("utf-8", "replace")


_NO_SECRETS: Final = ReplyRedactor()


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
