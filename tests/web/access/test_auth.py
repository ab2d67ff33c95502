"""Authentication of callers over HTTP, and the organization in which they create resources."""

from uuid import UUID

import pytest

from storage.ids import new_id
from storage.model import Role
from tests.web.conftest import Api, Service
from tests.web.people import as_user, founder, join, new_user, staff
from web.access.auth import Caller

KEYS = "/api/organizations/api-keys/"
UNKNOWN = "00000000-0000-4000-8000-000000000000"

BAD_CREDENTIALS = (
    (None, "Authentication credentials were not provided."),
    ("", "Authentication credentials were not provided."),
    ("Basic YTpi", "Authentication credentials were not provided."),
    ("Bearer", "Invalid API key."),
    ("Bearer nonsense", "Invalid API key."),
    ("Bearer hsk_abcdefgh_" + "x" * 43, "Invalid API key."),
    ("Bearer operator-token-of-the-tests", "Invalid API key."),
    ("Token", "Invalid token."),
    ("Token nonsense", "Invalid token."),
    ("Token " + "W" * 8000, "Invalid token."),
)


async def test_bad_credentials_are_refused_with_a_challenge(service: Service) -> None:
    for authorization, detail in BAD_CREDENTIALS:
        answer = await service.nobody.with_authorization(authorization).get("/api/cloud/agents/")
        assert (answer.status, answer.body) == (401, {"detail": detail}), authorization
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="api", Token'


async def test_keys_and_tokens_are_not_interchangeable(service: Service, api: Api) -> None:
    user, _ = await new_user(service)
    token = (as_user(service, user).authorization or "").removeprefix("Token ")
    key = (api.authorization or "").removeprefix("Bearer ")
    for authorization, detail in (
        (f"Bearer {token}", "Invalid API key."),
        (f"Token {key}", "Invalid token."),
    ):
        answer = await service.nobody.with_authorization(authorization).get(KEYS)
        assert (answer.status, answer.body) == (401, {"detail": detail})


async def test_header_confines_writes_to_its_organization(service: Service, api: Api) -> None:
    user, own = await new_user(service)
    agent = await api.create_agent()
    await join(service, user, UUID(agent["organization"]), Role.ADMIN)
    ann, path = as_user(service, user), f"/api/cloud/agents/{agent['id']}/"
    elsewhere = {"X-Organization": str(own.id)}
    for method, where, body in (
        ("POST", "/api/defaults/notifications/", {"agent": agent["id"], "title": "x"}),
        ("POST", "/api/defaults/notifications/clear/", {"agent": agent["id"]}),
        ("POST", "/api/tracing/traces/", {"agent": agent["id"], "name": "x"}),
        ("POST", f"{path}usage/", {"model": "m", "input_tokens": 1, "output_tokens": 1}),
        ("PATCH", path, {"name": "x"}),
        ("DELETE", path, None),
    ):
        answer = await ann.request(method, where, json=body, headers=elsewhere)
        assert (answer.status, answer.body["detail"]) == (
            403,
            "X-Organization names another organization than that of the resource.",
        ), where
    assert (await ann.get(path, headers=elsewhere)).status == 200, "reads cover all organizations"
    assert (await ann.delete(path, headers={"X-Organization": agent["organization"]})).status == 204


@pytest.mark.parametrize(
    ("header", "status", "whose"),
    [
        ("none", 400, "Must be a valid UUID."),
        (UNKNOWN, 403, "You do not belong to this organization."),
    ],
)
@pytest.mark.parametrize("path", ["/api/templates/", f"/api/cloud/agents/{UNKNOWN}/", "/api/tracing/traces/"])
async def test_unusable_organization_header_is_refused_on_every_route(
    service: Service, path: str, header: str, status: int, whose: str
) -> None:
    user, _ = await new_user(service)
    answer = await as_user(service, user).get(path, headers={"X-Organization": header})
    assert (answer.status, answer.body) == (status, {"detail": f"X-Organization: {whose}"})


async def test_several_organization_headers_are_refused(service: Service) -> None:
    user, own = await new_user(service)
    authorization = as_user(service, user).authorization or ""
    headers = [("X-Organization", str(own.id))] * 2 + [("Authorization", authorization)]
    async with service.nobody.client.get("/api/templates/", headers=headers) as response:
        assert response.status == 400
        assert await response.json() == {"detail": "X-Organization: Must be a valid UUID."}


async def test_user_without_organizations_is_told_what_to_do(service: Service) -> None:
    user, own = await new_user(service)
    await service.storage.pool.execute("DELETE FROM membership WHERE organization_id = $1", own.id)
    answer = await as_user(service, user).post("/api/templates/", {"name": "Clerk"})
    assert answer.status == 403
    assert answer.body == {"detail": "You belong to no organization: create one, or accept an invitation."}


async def test_refusal_names_the_role_that_is_missing(service: Service) -> None:
    _, organization = await founder(service)
    member, _ = await staff(service, organization, Role.MEMBER)
    admin, admins_membership = await staff(service, organization, Role.ADMIN)
    path = f"/api/organizations/organizations/{organization.id}/"
    refused = await member.patch(path, {"name": "Mine"})
    assert refused.body == {"detail": "This needs the role admin or owner; yours is member."}
    refused = await member.get("/api/organizations/invites/")
    assert refused.body == {"detail": "This needs the role admin or owner in one of your organizations."}
    refused = await admin.patch(f"/api/organizations/memberships/{admins_membership}/", {"role": "owner"})
    assert (refused.status, refused.body) == (403, {"detail": "This needs the role owner; yours is admin."})


async def test_key_is_told_that_a_users_token_is_needed(api: Api) -> None:
    answer = await api.post("/api/organizations/auth/logout/")
    assert answer.status == 403
    assert answer.body == {"detail": "This needs the token of a user, not an API key."}


def test_confined_caller_counts_for_its_only_organization() -> None:
    first, second = new_id(), new_id()
    caller = Caller(new_id(), {first: Role.MEMBER, second: Role.OWNER}, is_user=True)
    assert (caller.accountable, caller.reach.organization_ids) == (first, (first, second))

    confined = caller.confined_to(second)

    assert (confined.accountable, confined.reach.organization_ids) == (second, (second,))
    assert confined.identity == caller.identity == f"user:{caller.credential}"
    assert (caller.accountable, caller.reach.organization_ids) == (first, (first, second))


async def test_keys_of_one_organization_act_under_their_own_names(service: Service, api: Api) -> None:
    keys = [await api.create(KEYS, name=name) for name in ("one", "two")]
    for key in (*keys, *keys):
        created = await api.with_authorization(f"Bearer {key['key']}").create_agent()
        actor = await service.storage.pool.fetchval(
            "SELECT actor FROM event WHERE agent_id = $1", created["id"]
        )
        assert actor == f"key:{key['id']}"
