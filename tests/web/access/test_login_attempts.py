"""Refused logins, counted by client address."""

from ipaddress import ip_network

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from supervisors.clock import SystemClock
from tests.web.conftest import OPERATOR_TOKEN
from web.access.login_attempts import check_attempts, count_refusal, verify_password
from web.app_keys import CLOCK, PASSWORDS, SETTINGS, THROTTLE
from web.credentials.passwords import Passwords
from web.credentials.throttle import MAX_REFUSED, Throttle
from web.errors import TooManyAttempts
from web.settings import WebSettings


@pytest.fixture
def app() -> web.Application:
    app = web.Application()
    app[CLOCK] = SystemClock()
    app[THROTTLE] = Throttle()
    app[SETTINGS] = WebSettings("s" * 32, OPERATOR_TOKEN, trusted_proxies=(ip_network("127.0.0.0/8"),))
    return app


def request_from(app: web.Application, address: str) -> web.Request:
    request = make_mocked_request("POST", "/", headers={"X-Forwarded-For": address}, app=app)
    return request.clone(remote="127.0.0.1")


def test_address_is_locked_out_after_too_many_refusals(app: web.Application) -> None:
    for _ in range(MAX_REFUSED):
        check_attempts(request_from(app, "198.51.100.1"))
        count_refusal(request_from(app, "198.51.100.1"))
    with pytest.raises(TooManyAttempts):
        check_attempts(request_from(app, "198.51.100.1"))
    check_attempts(request_from(app, "198.51.100.2"))


async def test_only_wrong_passwords_count_as_refusals(app: web.Application) -> None:
    with Passwords() as passwords:
        app[PASSWORDS] = passwords
        password_hash = await passwords.hash("correct horse")
        request = request_from(app, "198.51.100.1")
        assert await verify_password(request, "correct horse", password_hash)
        assert repr(app[THROTTLE]) == "<Throttle: 0 addresses>"
        assert not await verify_password(request, "guess", password_hash)
        assert not await verify_password(request, "guess", None)
    assert repr(app[THROTTLE]) == "<Throttle: 1 addresses>"
