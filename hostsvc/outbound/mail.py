"""Sends letters through the operator's relay (SMTP), one after the other."""

import asyncio
from dataclasses import dataclass, field
from email.utils import make_msgid, parseaddr
from typing import Any, Literal

import aiosmtplib
import structlog

from supervisors.clock import SystemClock
from supervisors.settings import Bounded, between
from supervisors.text import excerpt
from web.mail import Write

log = structlog.get_logger()

MAX_WAITING = 1000


@dataclass(frozen=True, slots=True)
class MailSettings(Bounded):
    """The relay; without a `host` no e-mail is sent, and with one there is a `sender`, too."""

    host: str = ""
    port: int = between(587, 1, 65_535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    sender: str = ""
    timeout_seconds: float = between(30.0, 0.1, 600)

    def missing(self, base_url: str) -> list[str]:
        """Return which keys must be set besides, and why."""
        by_host = {"mail.sender": self.sender, "server.base_url": base_url} if self.host else {}
        missing = [f"{key} must be set because mail.host is" for key, value in by_host.items() if not value]
        if self.user and not self.password:
            missing.append("mail.password must be set because mail.user is")
        return missing

    def options(self) -> dict[str, Any]:
        """Return how to connect, as aiosmtplib takes it."""
        relay = {"hostname": self.host, "port": self.port, "timeout": self.timeout_seconds}
        security = {"use_tls": self.security == "tls", "start_tls": self.security == "starttls"}
        return {**relay, **security, "username": self.user or None, "password": self.password or None}


class MailRelay:
    """The relay, and the letters that wait for it. What still waits when the process ends is lost."""

    def __init__(self, settings: MailSettings) -> None:
        self.settings = settings
        self._waiting: asyncio.Queue[Write] = asyncio.Queue(MAX_WAITING)

    def send_later(self, write: Write) -> None:
        """Add a letter to those that wait, if there is room."""
        try:
            self._waiting.put_nowait(write)
        except asyncio.QueueFull:
            log.warning("mail not sent", reason=f"{MAX_WAITING} letters wait already")

    async def run_once(self) -> None:
        """Wait for a letter and try once to send it; a relay repeats what can be repeated."""
        write, subject = await self._waiting.get(), ""
        try:
            async with asyncio.timeout(self.settings.timeout_seconds):
                if letter := await write():
                    subject = letter["Subject"]
                    letter["From"], letter["Date"] = self.settings.sender, SystemClock().now()
                    letter["Message-ID"] = make_msgid(domain=parseaddr(letter["From"])[1].partition("@")[2])
                    await aiosmtplib.send(letter, **self.settings.options())
                    log.info("mail sent", subject=subject)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:  # TimeoutError is an OSError
            reason = excerpt(f"{type(error).__name__} {error}", 200)
            log.warning("mail not sent", subject=subject, reason=reason)
