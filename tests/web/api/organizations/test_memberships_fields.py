"""Body and response of memberships."""

from storage.identity.memberships import Member
from storage.model import Role
from tests.web.api.checks import (
    ID,
    ID_TEXT,
    NOON,
    NOON_TEXT,
    NULL,
    ORGANIZATION_ID,
    ORGANIZATION_ID_TEXT,
    OTHER_ID,
    OTHER_ID_TEXT,
    accept,
    refuse,
    serve,
)
from web.api.organizations.members import MembershipChangesBody, serialize_member


def test_change_takes_only_a_known_role() -> None:
    assert accept(MembershipChangesBody(), {"role": "admin", "user": ID_TEXT}) == {"role": Role.ADMIN}
    assert refuse(MembershipChangesBody(), {"role": None}) == {"role": NULL}


def test_response_includes_the_user() -> None:
    member = Member(ID, ORGANIZATION_ID, OTHER_ID, "ann@example.com", "Ann", Role.OWNER, NOON)
    assert serve(serialize_member(member)) == {
        "id": ID_TEXT,
        "user": {"id": OTHER_ID_TEXT, "email": "ann@example.com", "name": "Ann"},
        "organization": ORGANIZATION_ID_TEXT,
        "role": "owner",
        "created_at": NOON_TEXT,
    }
