"""The number of log lines that clients can cause."""

import structlog
from structlog.testing import capture_logs

from tests.web.server.clients import small_server
from web.server.line_limit import LINES, LineLimit
from web.server.settings import ConnectionSettings


async def test_lines_beyond_the_limit_are_counted() -> None:
    lines, log = LineLimit(), structlog.get_logger()
    with capture_logs() as logged:
        for _ in range(LINES + 5):
            lines.write(log.info, "refused")
        lines.write(log.info, "cut off", client="x")
        lines._windows["refused"] = (0.0, LINES, 5)  # a minute later
        lines.write(log.info, "refused")
    assert [line["event"] for line in logged] == ["refused"] * LINES + ["cut off", "refused"]
    assert logged[-1]["left_out"] == 5


async def test_malformed_requests_write_few_lines() -> None:
    async with small_server(ConnectionSettings()) as server:
        with capture_logs() as logged:
            for _ in range(3 * LINES):
                client = await server.connect(data=b"BAD\r\n\r\n")
                assert (await client.answer()).status == 400
    assert len(logged) == LINES
