"""Events: as streams, or as JSON for clients without streams; and tickets for streams."""

import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from aiohttp import web

from storage.events.model import Interest, selected_types
from web.access.auth import NO_ORGANIZATION, Caller, RunAccess
from web.access.path_access import path_id
from web.api.events.answers import EventList, EventStream, SelectedEvents, Selection, stream_response
from web.api.events.open_streams import OPEN_STREAMS, OPERATOR
from web.api.events.schemas import (
    DEFAULT_EVENTS,
    MAX_CURSOR,
    STREAMED_TYPES,
    AllEventQuery,
    EventsResponse,
    NewTicketBody,
    OperatorEventQuery,
    StreamedResponse,
    TicketEventQuery,
    TicketResponse,
)
from web.app_keys import CLOCK, EVENT_FEED, ROOM, STORAGE, STREAM_TICKETS
from web.credentials.formats import TicketHolder
from web.errors import BadRequest, NotFound, PermissionDenied, require_found
from web.fields import printable
from web.idempotency import read_body_once, receipt_of
from web.json import JSON_TYPE
from web.request.parsing import read_query
from web.routes import EVENT_STREAM, LAST_EVENT_ID, Access, Routes

routes = Routes()

CURSOR = re.compile("[0-9]{1,19}")


@routes.get(
    "/api/cloud/agents/{id}/events/",
    answer=EventsResponse,
    stream=StreamedResponse,
    query=TicketEventQuery,
    run_access=RunAccess.RUNNING,
    takes_ticket=True,
)
async def stream_agent_events(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Stream what happens to an agent, and the pauses of its organization.

    The answer is a stream of server-sent events unless `limit`, `wait` or `Accept: application/json` asks for
    JSON. `Last-Event-ID` resumes it, and counts more than `after`.
    """
    query = read_query(request)
    return await _answer(request, caller, query, await _interest_of_path(request, caller))


@routes.get(
    "/api/cloud/agents/{id}/runs/{run_id}/events/",
    answer=EventsResponse,
    stream=StreamedResponse,
    query=TicketEventQuery,
    run_access=RunAccess.RUNNING,
    takes_ticket=True,
)
async def stream_run_events(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Stream what happens in a run: its start, its end, and the changes that it makes.

    The answer is a stream unless `limit`, `wait` or `Accept: application/json` asks for JSON.
    """
    query = read_query(request)
    interest = await _interest_of_path(request, caller)
    run = require_found(await request.app[STORAGE].runs.get(path_id(request, "run_id")))
    if run.agent_id != interest.agent_id:
        raise NotFound
    return await _answer(request, caller, query, Interest(interest.organization_ids, run_id=run.id))


@routes.get(
    "/api/events/", answer=EventsResponse, stream=StreamedResponse, query=AllEventQuery, takes_ticket=True
)
async def stream_events(request: web.Request, caller: Caller) -> web.StreamResponse:
    """Stream what happens to all agents of your organizations, or to those that the filters select.

    The answer is a stream unless `limit`, `wait` or `Accept: application/json` asks for JSON.
    """
    query = read_query(request)
    return await _answer(request, caller, query, await _interest_of_filter(request, caller, query["agent"]))


@routes.create("/api/events/tickets/", body=NewTicketBody)
async def create_ticket(request: web.Request, caller: Caller) -> TicketResponse:
    """Create a ticket, with which a browser opens event streams: its EventSource cannot send a credential.

    The ticket can open streams of your own for a minute, as `?ticket=`; streams that are open go on. It is
    not valid after its key is deleted or its user has logged out. A repeated answer has null instead of it.
    """
    if not caller.roles:
        raise PermissionDenied(NO_ORGANIZATION)
    await read_body_once(request, caller)
    holder = TicketHolder(caller.credential, caller.token_version)
    ticket, expires_at = request.app[STREAM_TICKETS].issue(holder, request.app[CLOCK].now())
    answer: TicketResponse = {"ticket": ticket, "expires_at": expires_at}
    receipt = receipt_of(request, answer, "ticket")
    if receipt is not None:
        await request.app[STORAGE].receipts.insert(receipt, caller.accountable)
    return answer


@routes.get(
    "/status/events/",
    access=Access.OPERATORS,
    answer=EventsResponse,
    stream=StreamedResponse,
    query=OperatorEventQuery,
)
async def stream_all_events(request: web.Request) -> web.StreamResponse:
    """Stream what happens to the agents of all organizations, or to those that the filters select.

    The answer is a stream unless `limit`, `wait` or `Accept: application/json` asks for JSON.
    """
    query = read_query(request)
    agent_id, organization_id = query["agent"], query["organization"]
    if agent_id is not None:
        retained = await request.app[STORAGE].agents.get_retained(agent_id)
        if retained is not None and organization_id not in {None, retained.organization_id}:
            return await _answer(request, None, query, Interest(frozenset()))
        organization_id = retained.organization_id if retained else organization_id
    organization_ids = None if organization_id is None else frozenset({organization_id})
    return await _answer(request, None, query, Interest(organization_ids, agent_id))


async def _interest_of_path(request: web.Request, caller: Caller) -> Interest:
    """Return the interest in the agent of the path; a run reaches only its own agent.

    Raise NotFound if it does not exist, PermissionDenied if the caller may not reach it.
    """
    agent_id = path_id(request)
    organization_id = require_found(await request.app[STORAGE].agents.get_organization_id(agent_id))
    caller.require_agent(agent_id, organization_id)
    return Interest(frozenset({organization_id}), agent_id)


async def _interest_of_filter(request: web.Request, caller: Caller, agent_id: UUID | None) -> Interest:
    """Return the interest in one agent, which may have been deleted; None: in all that the caller reaches.

    Raise PermissionDenied for an agent of another organization. An agent that is not known has no events.
    """
    if agent_id is None:
        return Interest(frozenset(caller.organizations))
    retained = await request.app[STORAGE].agents.get_retained(agent_id)
    if retained is None:
        return Interest(frozenset())
    caller.require(retained.organization_id)
    return Interest(frozenset({retained.organization_id}), agent_id)


async def _answer(
    request: web.Request, caller: Caller | None, query: Mapping[str, Any], interest: Interest
) -> web.StreamResponse:
    """Answer with a stream, or with a list if the request asks for JSON. `caller` None: the operator."""
    app, cursor = request.app, _cursor(request, query)
    is_list = _wants_list(request, query)
    if request.method == "HEAD" and not is_list:
        return stream_response(request)
    selection = Selection(
        selected_types(query["type"], STREAMED_TYPES),
        query.get("tag", ""),
        is_for_run=caller is not None and caller.run is not None,
    )
    owner = OPERATOR if caller is None else caller.accountable
    events = SelectedEvents(app[STORAGE], app[EVENT_FEED], app[ROOM], owner, selection)
    with app[OPEN_STREAMS].open(request, caller) as stream:
        if is_list:
            collected = EventList(stream, events, query["limit"] or DEFAULT_EVENTS)
            return await collected.run(interest, cursor, query["wait"])
        return await EventStream(stream, interest, events).run(cursor)


def _cursor(request: web.Request, query: Mapping[str, Any]) -> int | None:
    """Return the position to resume at; the header counts more: a browser adds it to the same URL."""
    text = request.headers.get(LAST_EVENT_ID)
    if text is None:
        cursor: int | None = query["after"]
        return cursor
    if not CURSOR.fullmatch(text) or int(text) > MAX_CURSOR:
        raise BadRequest(f'{LAST_EVENT_ID}: Must be the id of an event, got "{printable(text)}".')
    return int(text)


def _wants_list(request: web.Request, query: Mapping[str, Any]) -> bool:
    """Return whether the answer is JSON: if a parameter says so, or if only JSON is accepted."""
    if query["limit"] is not None or query["wait"] is not None:
        return True
    accepted = ",".join(request.headers.getall("Accept", ())).lower()
    return JSON_TYPE in accepted and EVENT_STREAM not in accepted
