"""Bodies and responses of sign-up, login and passwords."""

from storage.identity.accounts import Membership
from storage.model import Organization, Role, User
from tests.web.api.checks import ID, ID_TEXT, NOON, REQUIRED, accept, refuse, serve
from web.api.organizations.accounts import (
    MAX_PASSWORD,
    LoginBody,
    PasswordChangeBody,
    ResetBody,
    SignupBody,
    serialize_membership,
    serialize_organization,
    serialize_user,
)

SIGNUP = {"email": "ann@example.com", "password": "correct horse", "organization_name": " Acme "}
TOO_SHORT = ["Ensure this field has at least 8 characters."]


def test_signup_trims_names_but_no_password() -> None:
    checked = accept(SignupBody(), {**SIGNUP, "password": " correct horse "})
    assert (checked["organization_name"], checked["password"]) == ("Acme", " correct horse ")
    assert checked["name"] == ""


def test_signup_needs_address_password_and_organization() -> None:
    assert refuse(SignupBody(), {}) == dict.fromkeys(SIGNUP, REQUIRED)


def test_new_password_has_a_minimum_and_a_maximum_length() -> None:
    too_long = [f"Ensure this field has no more than {MAX_PASSWORD} characters."]
    for password, messages in (("x" * 7, TOO_SHORT), ("x" * (MAX_PASSWORD + 1), too_long)):
        assert refuse(SignupBody(), {**SIGNUP, "password": password}) == {"password": messages}
    for schema, other in ((PasswordChangeBody(), "current_password"), (ResetBody(), "code")):
        body = {"email": "ann@example.com", other: "x", "new_password": "short"}
        assert refuse(schema, body) == {"new_password": TOO_SHORT}


def test_login_accepts_any_address_and_short_password() -> None:
    body = {"email": "ann", "password": "x"}
    assert accept(LoginBody(), body) == body


def test_user_response_contains_no_password_hash() -> None:
    user = User(ID, "ann@example.com", "Ann", "a hash", 1, NOON)
    assert serve(serialize_user(user)) == {"id": ID_TEXT, "email": "ann@example.com", "name": "Ann"}


def test_membership_is_the_organization_with_the_role() -> None:
    organization = serve(serialize_organization(Organization(ID, "Acme", NOON)))
    assert organization == {"id": ID_TEXT, "name": "Acme"}
    membership = serve(serialize_membership(Membership(ID, "Acme", Role.OWNER)))
    assert membership == {**organization, "role": "owner"}
