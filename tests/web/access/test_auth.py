"""Authentication of callers over HTTP, and the organization in which they create resources."""

from uuid import UUID

from storage.model import Role
from tests.web.conftest import Api, Service
from tests.web.people import as_user, join, new_user

KEYS = "/api/organizations/api-keys/"

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


async def test_user_token_of_an_older_version_is_refused(service: Service) -> None:
    user, _ = await new_user(service)
    await service.storage.pool.execute("UPDATE user_account SET token_version = token_version + 1")
    assert (await as_user(service, user).get(KEYS)).status == 401


async def test_user_of_two_organizations_reads_both(service: Service, api: Api) -> None:
    user, _ = await new_user(service)
    theirs = await api.create_agent(name="theirs")
    await join(service, user, UUID(theirs["organization"]), Role.MEMBER)
    ann = as_user(service, user)
    await ann.create_agent(name="mine")
    agents = (await ann.get("/api/cloud/agents/")).body
    assert {agent["name"] for agent in agents} == {"mine", "theirs"}


async def test_organization_header_says_where_a_resource_is_created(service: Service, api: Api) -> None:
    user, own = await new_user(service)
    second = (await api.create_agent())["organization"]
    await join(service, user, UUID(second), Role.MEMBER)
    ann = as_user(service, user)
    assert (await ann.create_agent(name="mine"))["organization"] == str(own.id)
    agent = {"name": "x", "model": "m"}
    created = await ann.post("/api/cloud/agents/", agent, headers={"X-Organization": second})
    assert created.body["organization"] == second
    for header, status in ((str(own.id), 403), ("7", 400)):
        answer = await api.post("/api/cloud/agents/", agent, headers={"X-Organization": header})
        assert answer.status == status
