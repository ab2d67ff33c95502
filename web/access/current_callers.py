"""Callers that were authenticated before, as they are now: for stream tickets, and for open streams."""

from aiohttp import web

from storage.model import Role
from web.access.auth import Caller, current_user
from web.app_keys import CLOCK, REGISTRY, STORAGE, STREAM_TICKETS
from web.credentials.formats import TicketHolder
from web.errors import NotAuthenticated


async def authenticate_ticket(request: web.Request, ticket: str) -> Caller:
    """Return the caller that a stream ticket was issued to, as it is now. Raise NotAuthenticated."""
    app = request.app
    holder = app[STREAM_TICKETS].read(ticket, app[CLOCK].now())
    if holder is None:
        raise NotAuthenticated("The ticket is invalid or has expired: get a new one.")
    caller = await _current_holder(app, holder)
    if caller is None:
        raise NotAuthenticated("The credential that the ticket stands for is no longer valid.")
    return caller


async def reread_caller(app: web.Application, caller: Caller) -> Caller | None:
    """Return the caller with the roles that it has now; None if its credential is no longer valid."""
    if caller.run is not None:
        return caller if app[REGISTRY].is_run_alive(caller.run.agent_id, caller.run.run_id) else None
    return await _current_holder(app, TicketHolder(caller.credential, caller.token_version))


async def _current_holder(app: web.Application, holder: TicketHolder) -> Caller | None:
    if holder.token_version is not None:
        return await current_user(app, holder.credential, holder.token_version)
    key = await app[STORAGE].api_keys.get(holder.credential)
    return Caller(key.id, {key.organization_id: Role.ADMIN}) if key and key.is_active else None
