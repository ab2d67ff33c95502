"""The number of log lines that clients can cause."""

import structlog
from structlog.testing import capture_logs

from tests.web.server.clients import small_server
from web.observability.line_limit import WINDOW_SECONDS, LineLimit
from web.server.connection import MAX_LINES
from web.settings import ConnectionSettings


def test_lines_beyond_the_limit_are_counted() -> None:
    now = [0.0]
    lines, log = LineLimit(lambda: now[0]), structlog.get_logger()
    with capture_logs() as logged:
        for _ in range(8):
            lines.write(log.info, "refused", 3)
        lines.write(log.info, "cut off", client="x")
        now[0] = WINDOW_SECONDS
        lines.write(log.info, "refused", 3)
    assert [line["event"] for line in logged] == ["refused"] * 3 + ["cut off", "refused"]
    assert logged[-1]["left_out"] == 5


async def test_malformed_requests_write_few_lines() -> None:
    async with small_server(ConnectionSettings()) as server:
        with capture_logs() as logged:
            for _ in range(3 * MAX_LINES):
                client = await server.connect(data=b"BAD\r\n\r\n")
                assert (await client.answer()).status == 400
    assert len(logged) == MAX_LINES
