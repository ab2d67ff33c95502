"""Transcripts: what an agent carries from run to run, for people to read and to delete."""

from functools import partial
from uuid import UUID

from aiohttp import web

from storage.history.transcripts import TranscriptFilters, TranscriptTurn
from web.access.auth import Caller, RunAccess
from web.access.path_access import agent_of_path
from web.app_keys import STORAGE
from web.page_reader import Listing
from web.paging import answer_list
from web.request.parsing import read_query
from web.routes import Routes
from web.schemas.transcripts import TranscriptQuery, TranscriptTurnResponse, serialize_turn

routes = Routes()

QUERY = TranscriptQuery()


@routes.get(
    "/api/cloud/agents/{id}/transcript/",
    answer=list[TranscriptTurnResponse],
    query=QUERY,
    run_access=RunAccess.RUNNING,
)
async def list_transcript(request: web.Request, caller: Caller) -> web.StreamResponse:
    """List what an agent carries from run to run, newest first.

    Only agents with a template whose `carry_over` is `transcript` have one. Each turn of a run is stored
    before the next one begins.
    """
    agent_id = await agent_of_path(request, caller)
    transcripts, query = request.app[STORAGE].transcripts, read_query(request, QUERY)

    async def find(turn_id: UUID) -> TranscriptTurn | None:
        turn = await transcripts.get(turn_id)
        return turn if turn and turn.agent_id == agent_id else None

    fetch = partial(transcripts.list_page, TranscriptFilters(agent_id, query["carried"]))
    return await answer_list(request, query, Listing(fetch, serialize_turn, find))


@routes.delete("/api/cloud/agents/{id}/transcript/")
async def delete_transcript(request: web.Request, caller: Caller) -> web.Response:
    """Delete the whole transcript of an agent, so that its next run starts without.

    A run that is active goes on with what it was told, and stores its further turns.
    """
    agent_id = await agent_of_path(request, caller)
    await request.app[STORAGE].transcripts.delete_of_agent(agent_id)
    return web.Response(status=204)
