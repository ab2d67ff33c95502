"""Sign-up and login: how a person gets a token."""

from aiohttp import web

from storage.errors import NotUnique
from storage.ids import new_id
from storage.model import Organization, User
from web.errors import Invalid, NotAuthenticated, PermissionDenied
from web.json import json_response
from web.keys import CLOCK, PASSWORDS, SETTINGS, STORAGE, THROTTLE, USER_TOKENS
from web.parsing import read_body
from web.routes import for_anyone
from web.schemas.accounts import (
    LoggedIn,
    Login,
    SignedUp,
    Signup,
    show_membership,
    show_organization,
    show_user,
)
from web.throttle import client_address

SIGNUP = Signup()
LOGIN = Login()


async def sign_up(request: web.Request) -> web.Response:
    """A new user who owns a new organization."""
    app = request.app
    if not app[SETTINGS].signup_open:
        raise PermissionDenied("Sign-up is closed.")
    body = await read_body(request, SIGNUP)
    _check_throttle(request)
    password_hash = await app[PASSWORDS].hash(body["password"])
    now = app[CLOCK].now()
    user = User(new_id(), body["email"], body["name"], password_hash, 1, now)
    organization = Organization(new_id(), body["organization_name"], now)
    try:
        await app[STORAGE].accounts.insert_account(user, organization)
    except NotUnique as error:
        _count_refusal(request)  # or sign-up would tell quickly who has an account
        raise Invalid({"email": ["user with this email already exists."]}) from error
    answer: SignedUp = {
        "token": app[USER_TOKENS].issue(user.id, user.token_version, now),
        "user": show_user(user),
        "organization": show_organization(organization),
    }
    return json_response(answer, status=201)


async def log_in(request: web.Request) -> web.Response:
    """A token for a user who knows the password; an unknown address is refused as a wrong password is."""
    app = request.app
    body = await read_body(request, LOGIN)
    _check_throttle(request)
    user = await app[STORAGE].accounts.get_user_by_email(body["email"])
    is_right = await app[PASSWORDS].verify(body["password"], user.password_hash if user else None)
    _check_throttle(request)  # once more: guesses may have been sent all at once
    if user is None or not is_right:
        _count_refusal(request)
        raise NotAuthenticated("Unable to log in with provided credentials.")
    places = await app[STORAGE].accounts.list_memberships(user.id)
    answer: LoggedIn = {
        "token": app[USER_TOKENS].issue(user.id, user.token_version, app[CLOCK].now()),
        "user": show_user(user),
        "organizations": [show_membership(place) for place in places],
    }
    return json_response(answer)


def _check_throttle(request: web.Request) -> None:
    request.app[THROTTLE].check(_address(request), request.app[CLOCK].monotonic())


def _count_refusal(request: web.Request) -> None:
    request.app[THROTTLE].count(_address(request), request.app[CLOCK].monotonic())


def _address(request: web.Request) -> str:
    forwarded = request.headers.getall("X-Forwarded-For", ())
    return client_address(request.remote or "", forwarded, request.app[SETTINGS].trusted_proxies)


ROUTES = (
    for_anyone(
        "POST",
        "/api/organizations/auth/signup/",
        sign_up,
        "Sign up: a new user who owns a new organization",
        status=201,
        answer=SignedUp,
        body=SIGNUP,
        refusals=frozenset({403, 429}),
    ),
    for_anyone(
        "POST",
        "/api/organizations/auth/login/",
        log_in,
        "Log in: a token for an existing user",
        answer=LoggedIn,
        body=LOGIN,
        refusals=frozenset({401, 429}),
    ),
)
