"""The receiver in docs/webhooks.md accepts the calls of the service, and no others."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from hostsvc.outbound.guarded_http import signed_headers
from supervisors.clock import SystemClock
from tests.paths import ROOT

GUIDE = ROOT / "docs" / "webhooks.md"
BODY = b'{"type":"agent.created","data":{"name":"Ada"}}'


@pytest.fixture
def receive() -> Callable[..., int]:
    """Return the receiver in the guide."""
    code = re.search(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)  # noqa: S102 -- from our own guide
    receive: Callable[..., int] = names["receive"]
    return receive


@pytest.mark.parametrize("secret", ["whsec_c2VjcmV0", "a secret in words"])
def test_receiver_of_the_guide_accepts_a_signed_call_once(
    receive: Callable[..., int], capsys: pytest.CaptureFixture[str], secret: str
) -> None:
    headers = signed_headers([secret], "msg-1", BODY, SystemClock().now())
    for _ in range(2):
        assert receive(secret, headers, BODY) == 204
    assert capsys.readouterr().out == "received: agent.created\n"
    assert receive("another secret", headers, BODY) == 401
    assert receive(secret, headers, BODY + b" ") == 401
