"""Letters to people: codes for new passwords, and invitations. Requests only hand them over."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from aiohttp import web

from storage.identity.accounts import Accounts
from storage.identity.organizations import Invite
from supervisors.clock import Clock
from web.credentials.formats import hash_secret, make_code
from web.credentials.rate_limits import TokenBuckets

CODE_LIFETIME = timedelta(hours=1)
CODE_INTERVAL = timedelta(minutes=10)  # between two codes that strangers can have sent to one account
INVITATIONS_PER_HOUR = 30  # of one organization, which anybody may create; more are passed on by hand
HOUR_SECONDS = 3600.0

RESET = """Somebody, probably you, has asked for a new password at {base_url}.

To choose one, open {base_url}/console/reset within an hour, and enter this code:

    {code}

If it was not you, ignore this message: your password is still the same.
"""
INVITATION = """You are invited to join {organization} at {base_url}.

To accept, open this link until {expires_at:%d %B %Y %H:%M} UTC. It works once:

    {base_url}/console/invites/{id}#{code}

If you do not know who invites you, ignore this message.
"""


@dataclass(frozen=True, slots=True)
class Letter:
    """An e-mail in plain text to one address."""

    to: str
    subject: str
    text: str


class Relay(Protocol):
    """Sends letters. Those that cannot be sent are in the log."""

    def send_later(self, write: Callable[[], Awaitable[Letter | None]]) -> None:
        """Write a letter and send it, after the call. None: there is nothing to send."""


class Mail:
    """What the service writes to people. `base_url` is the public address of the service."""

    def __init__(self, relay: Relay, accounts: Accounts, clock: Clock, base_url: str) -> None:
        self._relay = relay
        self._accounts = accounts
        self._clock = clock
        self._base_url = base_url
        self._invitations = TokenBuckets(INVITATIONS_PER_HOUR, HOUR_SECONDS)

    def send_reset_code(self, email: str) -> None:
        """Send a code if the address has an account. That is looked up later, so nobody can measure it."""

        async def write() -> Letter | None:
            code, expires_at = make_code(), self._clock.now() + CODE_LIFETIME
            older_than = expires_at - CODE_INTERVAL
            if not await self._accounts.set_reset_code(email, hash_secret(code), expires_at, older_than):
                return None
            return Letter(email, "A new password", RESET.format(base_url=self._base_url, code=code))

        self._relay.send_later(write)

    def send_invitation(self, invite: Invite, organization: str, code: str) -> None:
        """Send an invitation, unless the organization has had too many sent within an hour."""

        async def write() -> Letter:
            text = INVITATION.format(
                organization=organization,
                base_url=self._base_url,
                expires_at=invite.expires_at,
                id=invite.id,
                code=code,
            )
            return Letter(invite.email, f"Invitation to {organization}", text)

        if self._invitations.take(invite.organization_id, self._clock.monotonic()).is_granted:
            self._relay.send_later(write)


MAIL: web.AppKey[Mail | None] = web.AppKey("mail")  # None: the service sends no e-mail
