"""A mail server that keeps what it is sent, or refuses it."""

import asyncio
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

USER, PASSWORD = "hostsvc", "relay-password"


class MailServer:
    """The server at `port` of loopback, and what has arrived. It takes mail only after a log-in."""

    def __init__(self) -> None:
        self.port = 0
        self.arrived: asyncio.Queue[EmailMessage] = asyncio.Queue()
        self.recipients: list[str] = []
        self.refusal = ""
        vars(self)["handle_DATA"] = self.take  # the name that aiosmtpd calls

    async def take(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        if self.refusal:
            return self.refusal
        content = envelope.content
        assert isinstance(content, bytes)
        self.recipients += envelope.rcpt_tos
        message = message_from_bytes(content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.arrived.put_nowait(message)
        return "250 OK"


@asynccontextmanager
async def open_mail_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[MailServer]:
    mail = MailServer()

    def authenticate(
        _server: object, _session: object, _envelope: object, _method: str, data: object
    ) -> AuthResult:
        given = getattr(data, "login", b""), getattr(data, "password", b"")
        return AuthResult(success=given == (USER.encode(), PASSWORD.encode()), handled=False)

    def protocol() -> SMTP:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # of passwords without TLS
            return SMTP(
                mail,
                hostname="relay.test",
                enable_SMTPUTF8=True,
                authenticator=authenticate,
                auth_required=True,
                auth_require_tls=tls is not None,
                tls_context=tls,
                require_starttls=tls is not None,
            )

    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    async with server:
        mail.port = server.sockets[0].getsockname()[1]
        yield mail
