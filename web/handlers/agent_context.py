"""The context of an agent: what the built-in loop tells its model, for outside harnesses and for people."""

from aiohttp import web

from web.access.auth import Caller, RunAccess
from web.access.path_access import load_in_turn
from web.app_keys import WAKES
from web.json import json_response
from web.routes import Routes
from web.schemas.agent_context import ContextResponse, serialize_context

routes = Routes()


@routes.get("/api/cloud/agents/{id}/context/", answer=ContextResponse, run_access=RunAccess.RUNNING)
async def get_context(request: web.Request, caller: Caller) -> web.Response:
    """Read what the agent is told when it wakes: its notifications, conversations, core memory and last runs.

    During a run it is what the run would be told now; reading it changes nothing. `system` and `text` are the
    two messages that the built-in loop sends to the model.
    """
    context = await load_in_turn(request, request.app[WAKES].get)
    agent = context.facts.agent
    caller.require_agent(agent.id, agent.organization_id)
    return json_response(serialize_context(context))
