"""The audit log: every route that writes leaves an entry with its caller, or says why it needs none."""

import pytest

from tests.contract.answers import send
from tests.contract.requests_by_route import for_each_route, key_of
from tests.contract.tenants import Tenant, make
from web.app import ROUTES
from web.routes import Access, Route

pytestmark = pytest.mark.asyncio(loop_scope="module")

OF_THE_EVENT_LOG = "the event log has it: what agents work on, not who may do what"
WORK = (
    *("notifications", "messages", "contacts", "documents", "projects"),
    *("traces", "spans", "usage", "transcript", "run"),
)
WITHOUT_ENTRY = {
    "POST /api/events/tickets/": "a ticket is not stored",
    "POST /api/defaults/schedules/preview/": "nothing is stored",
    "POST /api/cloud/agents/{id}/preview/": "nothing is stored",
    "POST /api/cloud/rewind/": "nothing is stored",
    "POST /api/cloud/agents/{id}/tools/{name}/": "a tool that works on the queue; others leave their entries",
    "POST /api/cloud/attention/": "marks as seen what the event log has",
    "POST /api/organizations/webhooks/{id}/test/": "sends one delivery, which the list of deliveries has",
    "POST /api/organizations/hooks/{id}/test/": "receives one delivery, which the list of deliveries has",
    "POST /api/organizations/auth/reset/request/": "anybody asks; a code that is sent has an entry",
    "POST /api/organizations/webhook-deliveries/{id}/redeliver/": "sends the same delivery again",
}
UNCHANGED = {  # no effect here; in tests/web/api/events/test_audit_log.py and toolbox/test_mcp_servers.py
    "POST /api/toolbox/tools/{id}/accept/",
    "POST /api/cloud/agents/actions/",
    "POST /api/cloud/agents/{id}/stop/",
    "POST /api/cloud/agents/{id}/prompts/{number}/revert/",
    "POST /api/templates/{id}/prompts/{number}/revert/",
}
CHANGES = [route for route in ROUTES if route.method != "GET" and route.access is not Access.OPERATORS]
LAST = "SELECT max(id) FROM event"
SINCE = "SELECT actor, address, type, data FROM event WHERE id > $1 AND is_audited(type) ORDER BY id"


def is_excused(route: Route) -> bool:
    is_work = any(f"/{word}/" in route.path for word in WORK)
    return is_work or key_of(route) in WITHOUT_ENTRY.keys() | UNCHANGED


@for_each_route(CHANGES)
async def test_each_write_leaves_an_entry_with_its_caller(ours: Tenant, route: Route) -> None:
    request, pool = await make(ours, route), ours.service.storage.pool
    last = await pool.fetchval(LAST)
    answer = await send(ours.service, request)
    assert answer.status == route.status, answer
    entries = await pool.fetch(SINCE, last)
    asked = [entry for entry in entries if entry["actor"] and entry["address"]]
    if is_excused(route):
        assert not asked, entries
        return
    assert asked, entries
    assert {entry["actor"].partition(":")[0] for entry in asked} <= {"key", "user"}
    assert len({entry["actor"] for entry in asked}) == 1


async def test_each_excuse_is_about_a_route() -> None:
    assert {key_of(route) for route in CHANGES} >= WITHOUT_ENTRY.keys() | UNCHANGED
