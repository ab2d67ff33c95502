"""Sign-up, login, tokens and keys."""

from ipaddress import ip_network
from typing import Any
from uuid import UUID

from storage.model import Role
from tests.web.conftest import Answer, Api, Service, StartService

SIGNUP = "/api/organizations/auth/signup/"
LOGIN = "/api/organizations/auth/login/"
KEYS = "/api/organizations/api-keys/"
ANN = {"email": "Ann@Example.com", "password": "correct horse", "organization_name": " Acme ", "name": "Ann"}
WRONG = {"detail": "Unable to log in with provided credentials."}

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


async def sign_up(service: Service, **changes: Any) -> Answer:
    return await service.nobody.post(SIGNUP, {**ANN, **changes})


async def log_in(service: Service, email: str, password: str, **headers: str) -> Answer:
    return await service.nobody.post(LOGIN, {"email": email, "password": password}, headers=headers)


async def test_sign_up_answers_with_a_token_that_works(service: Service) -> None:
    answer = await sign_up(service)
    assert answer.status == 201
    assert set(answer.body) == {"token", "user", "organization"}
    assert answer.body["user"] == {"id": answer.body["user"]["id"], "email": "Ann@Example.com", "name": "Ann"}
    assert answer.body["organization"]["name"] == "Acme"
    ann = service.nobody.with_authorization(f"Token {answer.body['token']}")
    assert (await ann.get("/api/cloud/agents/")).body == []


async def test_login_knows_the_address_in_any_case(service: Service) -> None:
    signed_up = (await sign_up(service)).body
    answer = await log_in(service, "ann@EXAMPLE.com", ANN["password"])
    assert answer.status == 200
    assert answer.body["user"] == signed_up["user"]
    assert answer.body["organizations"] == [{**signed_up["organization"], "role": "owner"}]
    ann = service.nobody.with_authorization(f"token {answer.body['token']}")
    assert (await ann.get(KEYS)).status == 200


async def test_a_wrong_password_is_refused_like_an_unknown_email(service: Service) -> None:
    await sign_up(service)
    for email in ("ann@example.com", "nobody@example.com"):
        answer = await log_in(service, email, "wrong password")
        assert (answer.status, answer.body) == (401, WRONG)


async def test_an_address_signs_up_once(service: Service) -> None:
    await sign_up(service)
    answer = await sign_up(service, email="ANN@example.com")
    assert (answer.status, answer.body) == (400, {"email": ["user with this email already exists."]})


async def test_sign_up_checks_its_fields(service: Service) -> None:
    answer = await sign_up(service, email="ann", password="short", organization_name=" ", name="x" * 256)
    assert (answer.status, answer.body) == (
        400,
        {
            "email": ["Enter a valid email address."],
            "password": ["Ensure this field has at least 8 characters."],
            "organization_name": ["This field may not be blank."],
            "name": ["Ensure this field has no more than 255 characters."],
        },
    )


async def test_a_closed_service_signs_nobody_up(start_service: StartService) -> None:
    answer = await sign_up(await start_service(signup_open=False))
    assert (answer.status, answer.body) == (403, {"detail": "Sign-up is closed."})


async def test_ten_refused_logins_close_the_door_to_that_address(start_service: StartService) -> None:
    service = await start_service(trusted_proxies=(ip_network("127.0.0.0/8"),))
    await sign_up(service)
    for _ in range(10):
        assert (await log_in(service, "ann@example.com", "wrong")).status == 401
    answer = await log_in(service, "ann@example.com", ANN["password"])
    assert answer.status == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 300
    elsewhere = {"X-Forwarded-For": "203.0.113.9"}
    assert (await log_in(service, "ann@example.com", ANN["password"], **elsewhere)).status == 200


async def test_validation_errors_are_no_refused_attempts(service: Service) -> None:
    await sign_up(service)
    for _ in range(11):
        assert (await service.nobody.post(LOGIN, {})).status == 400
    assert (await log_in(service, "ann@example.com", ANN["password"])).status == 200


async def test_a_key_is_shown_once_and_works_until_it_is_deleted(service: Service, api: Api) -> None:
    created = await api.create(KEYS, name=" CI ")
    assert set(created) == {"id", "name", "key", "prefix", "is_active", "last_used_at", "created_at"}
    assert (created["name"], created["is_active"]) == ("CI", True)
    mine = service.nobody.with_authorization(f"bearer {created['key']}")
    listed = (await mine.get(KEYS)).body
    assert [key["name"] for key in listed] == ["CI", "tests"]
    assert all("key" not in key for key in listed)
    assert listed[0]["last_used_at"] is not None
    assert (await api.delete(f"{KEYS}{created['id']}/")).status == 204
    answer = await mine.get(KEYS)
    assert (answer.status, answer.body) == (401, {"detail": "Invalid API key."})


async def test_an_inactive_key_does_not_work(service: Service, api: Api) -> None:
    created = await api.create(KEYS, name="later", is_active=False)
    assert (await service.nobody.with_authorization(f"Bearer {created['key']}").get(KEYS)).status == 401


async def test_keys_of_another_organization_are_out_of_reach(api: Api, other: Api) -> None:
    created = await api.create(KEYS, name="mine")
    assert (await other.delete(f"{KEYS}{created['id']}/")).status == 403
    assert [key["name"] for key in (await other.get(KEYS)).body] == ["tests"]


async def test_members_do_everything_but_keys(service: Service) -> None:
    signed_up = (await sign_up(service)).body
    await service.storage.pool.execute("UPDATE membership SET role = $1", Role.MEMBER)
    ann = service.nobody.with_authorization(f"Token {signed_up['token']}")
    await ann.create_agent()
    assert [(await ann.request(method, KEYS)).status for method in ("GET", "POST")] == [403, 403]


async def test_pages_of_keys(api: Api) -> None:
    for name in ("a", "b"):
        await api.create(KEYS, name=name)
    page = await api.get(f"{KEYS}?limit=2")
    assert [key["name"] for key in page.body] == ["b", "a"]
    rest = await api.get(f"{KEYS}?limit=2&after={page.body[1]['id']}")
    assert [key["name"] for key in rest.body] == ["tests"]


async def test_without_a_good_credential_nothing_is_answered(service: Service) -> None:
    for authorization, detail in BAD_CREDENTIALS:
        answer = await service.nobody.with_authorization(authorization).get("/api/cloud/agents/")
        assert (answer.status, answer.body) == (401, {"detail": detail}), authorization
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="api", Token'


async def test_a_key_is_no_token_and_a_token_no_key(service: Service, api: Api) -> None:
    token = (await sign_up(service)).body["token"]
    key = (api.authorization or "").removeprefix("Bearer ")
    for authorization, detail in (
        (f"Bearer {token}", "Invalid API key."),
        (f"Token {key}", "Invalid token."),
    ):
        answer = await service.nobody.with_authorization(authorization).get(KEYS)
        assert (answer.status, answer.body) == (401, {"detail": detail})


async def test_a_bumped_version_ends_a_users_tokens(service: Service) -> None:
    token = (await sign_up(service)).body["token"]
    await service.storage.pool.execute("UPDATE user_account SET token_version = token_version + 1")
    assert (await service.nobody.with_authorization(f"Token {token}").get(KEYS)).status == 401


async def test_a_user_of_two_organizations_reads_both_and_creates_where_the_header_says(
    service: Service, api: Api
) -> None:
    signed_up = (await sign_up(service)).body
    second = (await api.create_agent(name="theirs"))["organization"]
    await service.storage.pool.execute(
        "INSERT INTO membership (id, organization_id, user_id, role, created_at)"
        " VALUES (gen_random_uuid(), $1, $2, 'member', now())",
        UUID(second),
        UUID(signed_up["user"]["id"]),
    )
    ann = service.nobody.with_authorization(f"Token {signed_up['token']}")
    first = signed_up["organization"]["id"]
    assert (await ann.create_agent(name="mine"))["organization"] == first
    agent = {"name": "x", "model": "m"}
    there = await ann.post("/api/cloud/agents/", agent, headers={"X-Organization": second})
    assert there.body["organization"] == second
    assert {each["name"] for each in (await ann.get("/api/cloud/agents/")).body} == {"mine", "theirs", "x"}
    for header, status in ((first, 403), ("7", 400)):
        answer = await api.post("/api/cloud/agents/", agent, headers={"X-Organization": header})
        assert answer.status == status
