"""E-mail, to the one server that an operator has named."""

import asyncio
import ssl
from email.message import EmailMessage
from email.utils import formatdate
from typing import Final

import msgspec

SMTP_SECONDS: Final = 30.0
"""How long a server has for a whole message."""
AT_ONCE: Final = 2
"""Messages under way at a time; servers count connections."""
STARTTLS: Final = "starttls"
TLS: Final = "tls"
PLAIN: Final = "none"


class MailError(Exception):
    """A message was not accepted: the server's code, None where there was no answer, and the reason."""

    def __init__(self, code: int | None, word: str) -> None:
        super().__init__(word)
        self.code = code
        self.word = word


class MailServer(msgspec.Struct, frozen=True):
    """The mail server, and the sender of messages. `security` is `starttls`, `tls` or `none`."""

    host: str
    port: int
    security: str
    sender: str
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"MailServer({self.host}:{self.port})"


class Mailer:
    """Sends messages to a mail server. The library is loaded with the first one."""

    def __init__(
        self, server: MailServer, *, seconds: float = SMTP_SECONDS, trust: ssl.SSLContext | None = None
    ) -> None:
        self._server = server
        self._seconds = seconds
        self._trust = trust
        self._places = asyncio.Semaphore(AT_ONCE)

    async def send(self, recipient: str, subject: str, text: str, name: str) -> int:
        """Send a message and return the code of the server, 250; MailError. A `name` is the same at every attempt."""
        import aiosmtplib  # noqa: PLC0415 -- 5 MB that a server without e-mail must not pay

        server = self._server
        message = EmailMessage()
        message["From"], message["To"], message["Subject"] = server.sender, recipient, subject
        message["Date"] = formatdate(usegmt=True)
        message["Message-ID"] = f"<{name}@{server.sender.rpartition('@')[2].rstrip('>')}>"
        message.set_content(text)
        try:
            async with self._places, asyncio.timeout(self._seconds):
                await aiosmtplib.send(
                    message,
                    hostname=server.host,
                    port=server.port,
                    username=server.user,
                    password=server.password,
                    use_tls=server.security == TLS,
                    start_tls=server.security == STARTTLS,
                    tls_context=self._trust,
                    timeout=self._seconds,
                )
        except aiosmtplib.SMTPRecipientsRefused as error:
            raise MailError(error.recipients[0].code, "refused") from error
        except aiosmtplib.SMTPResponseException as error:
            raise MailError(error.code, "refused") from error
        except (aiosmtplib.SMTPException, OSError) as error:
            is_late = isinstance(error, TimeoutError | aiosmtplib.SMTPTimeoutError)
            raise MailError(None, "too_slow" if is_late else "unreachable") from error
        return 250
