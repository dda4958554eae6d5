"""Our credentials taken out of what partners answer, before anybody reads it (S-10).

A partner may repeat what it was shown: in the text of an error, in a link, in a header, even in a result. Everything of
a partner enters through here, so that nothing behind this point, be it a caller's answer, a log, a trace or the
database, has to know what is secret. An answer without a secret is passed on as it is, without a copy.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from fairlead.documents.redaction import Redactor
from fairlead.http_client.outcomes import Reply

SECRET_CHARACTERS_MIN: Final = 8
"""Shorter texts keep nothing secret, and would be found in innocent words."""


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
