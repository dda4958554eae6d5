"""A mail server that keeps the letters it is handed."""

from collections.abc import Sequence
from email import message_from_bytes, policy
from email.message import EmailMessage

from aiosmtpd.smtp import SMTP, Envelope, Session

from fairlead.mail import Mailer, MailServer


class Letters:
    """A mail server's letters, and what it answers to recipients."""

    def __init__(self) -> None:
        """Take every letter."""
        self.taken: list[tuple[Sequence[str], EmailMessage]] = []
        self.answer = "250 OK"
        self.port = 0

    @property
    def mailer(self) -> Mailer:
        """What hands letters to the server."""
        return Mailer(MailServer("127.0.0.1", self.port, "none", "fairlead@example.com"))

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd's name
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        """Say whether a recipient is known."""
        envelope.rcpt_tos.append(address)
        return self.answer

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 -- same
        """Take a letter."""
        content = envelope.content
        assert isinstance(content, bytes)
        self.taken.append((envelope.rcpt_tos, message_from_bytes(content, policy=policy.default)))
        return "250 OK"
