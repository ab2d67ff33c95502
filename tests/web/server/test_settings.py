"""The checks of the limits on connections."""

from typing import Any

import pytest

from web.server.settings import ConnectionSettings


@pytest.mark.parametrize(
    "changes", [{"max_connections": 0}, {"head_seconds": 0}, {"reader_seconds": 0}, {"keepalive_seconds": -1}]
)
def test_limits_must_be_positive(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        ConnectionSettings(**changes)
