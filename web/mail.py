"""Letters to people: codes for new passwords, and invitations. Requests only hand them over."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from storage.identity.accounts import Accounts
from storage.identity.organizations import Invite
from supervisors.clock import Clock
from web.credentials.formats import hash_secret, make_code
from web.credentials.rate_limits import TokenBuckets

CODE_LIFETIME = timedelta(hours=1)
CODE_INTERVAL = timedelta(minutes=10)  # between two codes that strangers can have sent to one account
INVITATIONS_PER_HOUR = 30  # of one organization, which anybody may create; more are passed on by hand
TEXTS = Path(__file__).parent / "letters"
Write = Callable[[], Awaitable[EmailMessage | None]]


@dataclass(frozen=True, slots=True)
class Mail:
    """What the service at `base_url` writes to people; `send_later` calls what writes one and sends it."""

    send_later: Callable[[Write], None]
    accounts: Accounts
    clock: Clock
    base_url: str
    invitations: TokenBuckets = field(default_factory=partial(TokenBuckets, INVITATIONS_PER_HOUR, 3600.0))

    def send_reset_code(self, email: str) -> None:
        """Send a code if the address has an account. That is looked up later, so nobody can measure it."""

        async def write() -> EmailMessage | None:
            code = await new_reset_code(self.accounts, email, self.clock.now(), CODE_INTERVAL)
            return self._letter("reset", email=email, code=code) if code else None

        self.send_later(write)

    def send_invitation(self, invite: Invite, organization: str, code: str) -> None:
        """Send an invitation, unless the organization has had too many sent within an hour."""

        async def write() -> EmailMessage:
            return self._letter("invitation", invite=invite, organization=organization, code=code)

        if self.invitations.take(invite.organization_id, self.clock.monotonic()).is_granted:
            self.send_later(write)

    def _letter(self, name: str, **values: Any) -> EmailMessage:
        head, _, body = (TEXTS / f"{name}.txt").read_text().partition("\n\n")
        letter, values = EmailMessage(), values | {"base_url": self.base_url}
        for line in head.splitlines():
            letter.add_header(*" ".join(line.format(**values).split()).split(": ", 1))
        letter.set_content(body.format(**values))
        return letter


async def new_reset_code(
    accounts: Accounts, email: str, now: datetime, interval: timedelta | None = None
) -> str:
    """Return a new code for the password of this account; "" if there is none, or an old code is younger."""
    code, expires_at = make_code(), now + CODE_LIFETIME
    old_before = expires_at - interval if interval else None
    is_set = await accounts.set_reset_code(email, hash_secret(code), expires_at, old_before)
    return code if is_set else ""


MAIL: web.AppKey[Mail | None] = web.AppKey("mail")  # None: the service sends no e-mail
