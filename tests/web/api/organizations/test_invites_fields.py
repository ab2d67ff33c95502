"""Bodies and responses of invites."""

from storage.identity.invites import Invite
from storage.model import Role
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    ORGANIZATION_ID,
    REQUIRED,
    accept,
    refuse,
    serve,
)
from web.api.organizations.members import (
    AcceptanceBody,
    NewInviteBody,
    PasswordAcceptanceBody,
    serialize_invite,
)


def test_invited_person_becomes_a_member_by_default() -> None:
    assert accept(NewInviteBody(), {"email": "bob@example.com"})["role"] is Role.MEMBER
    assert refuse(NewInviteBody(), {"role": "king"}) == {
        "email": REQUIRED,
        "role": ['"king" is not a valid choice.'],
    }


def test_acceptance_needs_code_and_password() -> None:
    assert refuse(PasswordAcceptanceBody(), {}) == {"code": REQUIRED, "password": REQUIRED}
    assert accept(AcceptanceBody(), {"code": "c"}) == {"code": "c", "name": ""}
    assert refuse(AcceptanceBody(), {"code": "c", "password": None}) == {
        "password": ["This field may not be null."]
    }
    assert accept(PasswordAcceptanceBody(), {"code": " c ", "password": "correct horse"}) == {
        "code": "c",
        "password": "correct horse",
        "name": "",
    }


def test_response_contains_neither_code_nor_its_hash() -> None:
    invite = Invite(ID, ORGANIZATION_ID, "bob@example.com", Role.ADMIN, b"hash", NOON, None, NOON)
    assert serve(serialize_invite(invite)) == {
        "id": ID_TEXT,
        "email": "bob@example.com",
        "role": "admin",
        "expires_at": NOON_TEXT,
        "accepted_at": None,
        "created_at": NOON_TEXT,
    }
