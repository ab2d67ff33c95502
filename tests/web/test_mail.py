"""Letters that requests cause: codes for new passwords, and invitations."""

import pytest

from tests.web.conftest import Api, Service, StartService
from tests.web.people import as_user, new_user
from web.mail import INVITATIONS_PER_HOUR

RESET, REQUEST = "/api/organizations/auth/reset/", "/api/organizations/auth/reset/request/"
INVITES = "/api/organizations/invites/"
BASE = "https://agents.example.org"

pytestmark = pytest.mark.one_node  # the letters of one node are looked at


async def test_sent_code_sets_a_new_password_once(start_service: StartService) -> None:
    service = await start_service(base_url=BASE)
    ann, _ = await new_user(service, "ann@example.org")
    answer = await service.nobody.post(REQUEST, {"email": "ANN@example.org"})
    assert (answer.status, answer.body) == (204, "")
    [letter] = await service.letters.written()
    assert letter["To"] == "ANN@example.org"
    assert f"open {BASE}/console/reset within an hour" in letter.get_content()
    code = letter.get_content().partition("code:")[2].split()[0]
    body = {"email": "ann@example.org", "code": code, "new_password": "another horse"}
    assert [(await service.nobody.post(RESET, body)).status for _ in range(2)] == [200, 400]
    assert (await as_user(service, ann).get("/api/organizations/auth/me/")).status == 401


async def test_address_without_account_is_answered_alike_and_gets_nothing(service: Service) -> None:
    await new_user(service, "ann@example.org")
    known, unknown = [
        await service.nobody.post(REQUEST, {"email": email})
        for email in ("ann@example.org", "bob@example.org")
    ]
    assert (known.status, known.body) == (unknown.status, unknown.body) == (204, "")
    assert known.headers.keys() == unknown.headers.keys()
    assert len(service.letters.asked) == 2, "the account is looked up after both answers"
    assert [letter["To"] for letter in await service.letters.written()] == ["ann@example.org"]


async def test_second_code_within_ten_minutes_is_not_sent(service: Service) -> None:
    await new_user(service, "ann@example.org")
    for _ in range(2):
        await service.nobody.post(REQUEST, {"email": "ann@example.org"})
    assert len(await service.letters.written()) == 1


async def test_codes_are_requested_ten_times_at_once(service: Service) -> None:
    statuses = [(await service.nobody.post(REQUEST, {"email": "ann@example.org"})).status for _ in range(11)]
    assert statuses == [204] * 10 + [429]
    assert len(service.letters.asked) == 10


async def test_invitation_is_sent_with_the_link_of_the_answer(start_service: StartService) -> None:
    service = await start_service(base_url=BASE)
    api = await service.new_organization()
    invite = await api.create(INVITES, email="bob@example.org")
    [letter] = await service.letters.written()
    assert (letter["To"], letter["Subject"]) == ("bob@example.org", "Invitation to Acme")
    assert f"\n    {BASE}/console/invites/{invite['id']}#{invite['code']}\n" in letter.get_content()


async def test_repeated_invitation_is_sent_once(service: Service, api: Api) -> None:
    for _ in range(2):
        await api.post(INVITES, {"email": "bob@example.org"}, headers={"Idempotency-Key": "one"})
    assert len(service.letters.asked) == 1


async def test_organization_has_a_bounded_number_of_invitations_sent(service: Service, api: Api) -> None:
    for number in range(INVITATIONS_PER_HOUR + 1):
        await api.create(INVITES, email=f"bob-{number}@example.org")
    assert len(service.letters.asked) == INVITATIONS_PER_HOUR


async def test_name_of_an_organization_stays_within_its_place(service: Service) -> None:
    user, _ = await new_user(service)
    ann = as_user(service, user)
    organization = await ann.create(
        "/api/organizations/organizations/", name="Zoë: {code} <b@example.org>, \u2028Bcc: x@example.org"
    )
    await ann.post(INVITES, {"email": "bob@example.org"}, headers={"X-Organization": organization["id"]})
    [letter] = await service.letters.written()
    assert letter["Subject"].startswith("Invitation to Zoë: {code} <b@example.org>")
    assert sorted(letter.keys())[:2] == ["Auto-Submitted", "Content-Transfer-Encoding"]
    assert (letter["To"], letter["Bcc"]) == ("bob@example.org", None)
