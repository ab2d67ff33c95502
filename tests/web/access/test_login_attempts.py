"""Attempts to log in and sign-ups, counted by client network."""

from dataclasses import replace
from ipaddress import ip_network

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from supervisors.clock import SystemClock
from tests.web.conftest import OPERATOR_TOKEN
from web.access.login_attempts import count_signup, counted_attempt
from web.app_keys import CLOCK, LOGIN_GUARD, SETTINGS, SIGNUPS
from web.credentials.login_guard import OF_PAIR, AttemptKind, LoginGuard
from web.credentials.rate_limits import TokenBuckets
from web.errors import Throttled
from web.settings import LimitSettings, WebSettings


@pytest.fixture
def app() -> web.Application:
    app = web.Application()
    app[CLOCK] = SystemClock()
    app[LOGIN_GUARD] = LoginGuard()
    app[SETTINGS] = WebSettings("s" * 32, OPERATOR_TOKEN, trusted_proxies=(ip_network("127.0.0.0/8"),))
    app[SIGNUPS] = TokenBuckets(app[SETTINGS].limits.signups_per_hour, 3600)
    return app


def request_from(app: web.Application, address: str) -> web.Request:
    request = make_mocked_request("POST", "/", headers={"X-Forwarded-For": address}, app=app)
    return request.clone(remote="127.0.0.1")


def fail(app: web.Application, address: str, account: str = "ann@example.com") -> None:
    with counted_attempt(request_from(app, address), AttemptKind.PASSWORD, account) as attempt:
        attempt.count_wrong()


def test_ipv6_network_counts_as_one_client(app: web.Application) -> None:
    for number in range(OF_PAIR.attempts):
        fail(app, f"2001:db8::{number:x}")
    with pytest.raises(Throttled):
        fail(app, "2001:db8::ffff")
    fail(app, "2001:db8:0:1::ffff")


def test_signups_of_a_network_are_limited(app: web.Application) -> None:
    for _ in range(app[SETTINGS].limits.signups_per_hour):
        count_signup(request_from(app, "198.51.100.1"))
    with pytest.raises(Throttled) as refused:
        count_signup(request_from(app, "198.51.100.1"))
    assert "At most 60 sign-ups an hour" in refused.value.body["detail"]
    assert "limits.signups_per_hour" in refused.value.body["detail"]
    assert 50 <= int(refused.value.headers["Retry-After"]) <= 60
    count_signup(request_from(app, "198.51.100.2"))


def test_signups_are_unlimited_if_the_limit_is_zero(app: web.Application) -> None:
    app[SETTINGS] = replace(app[SETTINGS], limits=LimitSettings(signups_per_hour=0))
    for _ in range(100):
        count_signup(request_from(app, "198.51.100.1"))
