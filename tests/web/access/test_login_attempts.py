"""Attempts to log in and sign-ups, counted by client network."""

from dataclasses import replace
from ipaddress import ip_network

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from supervisors.clock import SystemClock
from tests.web.conftest import OPERATOR_TOKEN
from web.access.login_attempts import (
    count_refusal,
    count_signup,
    hash_password,
    login_attempt,
    verify_password,
)
from web.app_keys import CLOCK, FORWARDED_WATCH, PASSWORDS, SETTINGS, SIGNUPS, THROTTLE
from web.credentials.forwarded_watch import ForwardedWatch
from web.credentials.passwords import Passwords
from web.credentials.recent_events import RecentEvents
from web.credentials.throttle import MAX_REFUSED, Throttle
from web.errors import Throttled
from web.settings import WebSettings


@pytest.fixture
def app() -> web.Application:
    app = web.Application()
    app[CLOCK] = SystemClock()
    app[THROTTLE] = Throttle()
    app[SETTINGS] = WebSettings("s" * 32, OPERATOR_TOKEN, trusted_proxies=(ip_network("127.0.0.0/8"),))
    app[SIGNUPS] = RecentEvents(app[SETTINGS].signups_per_hour, 3600)
    app[FORWARDED_WATCH] = ForwardedWatch()
    return app


def request_from(app: web.Application, address: str) -> web.Request:
    request = make_mocked_request("POST", "/", headers={"X-Forwarded-For": address}, app=app)
    return request.clone(remote="127.0.0.1")


def test_address_is_locked_out_after_too_many_refusals(app: web.Application) -> None:
    for _ in range(MAX_REFUSED):
        with login_attempt(request_from(app, "198.51.100.1")):
            count_refusal(request_from(app, "198.51.100.1"))
    with pytest.raises(Throttled), login_attempt(request_from(app, "198.51.100.1")):
        pass
    with login_attempt(request_from(app, "198.51.100.2")):
        pass


def test_ipv6_network_is_locked_out_as_a_whole(app: web.Application) -> None:
    for number in range(MAX_REFUSED):
        count_refusal(request_from(app, f"2001:db8::{number:x}"))
    with pytest.raises(Throttled), login_attempt(request_from(app, "2001:db8::ffff")):
        pass
    with login_attempt(request_from(app, "2001:db8:0:1::ffff")):
        pass


def test_signups_of_a_network_are_limited(app: web.Application) -> None:
    for _ in range(app[SETTINGS].signups_per_hour):
        count_signup(request_from(app, "198.51.100.1"))
    with pytest.raises(Throttled) as refused:
        count_signup(request_from(app, "198.51.100.1"))
    assert "At most 60 sign-ups an hour" in refused.value.body["detail"]
    assert "limits.signups_per_hour" in refused.value.body["detail"]
    assert 3590 <= int(refused.value.headers["Retry-After"]) <= 3600
    count_signup(request_from(app, "198.51.100.2"))


def test_signups_are_unlimited_if_the_limit_is_zero(app: web.Application) -> None:
    app[SETTINGS] = replace(app[SETTINGS], signups_per_hour=0)
    for _ in range(100):
        count_signup(request_from(app, "198.51.100.1"))


async def test_only_wrong_passwords_count_as_refusals(app: web.Application) -> None:
    with Passwords() as passwords:
        app[PASSWORDS] = passwords
        request = request_from(app, "198.51.100.1")
        password_hash = await hash_password(request, "correct horse")
        assert await verify_password(request, "correct horse", password_hash)
        assert app[THROTTLE].recent_attempts("198.51.100.1", app[CLOCK].monotonic()) == 0
        assert not await verify_password(request, "guess", password_hash)
        assert not await verify_password(request, "guess", None)
        assert app[THROTTLE].recent_attempts("198.51.100.1", app[CLOCK].monotonic()) == 2
