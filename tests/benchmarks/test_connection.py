"""The load generators' connection finds the end of each answer."""

import pytest

from tests.benchmarks.connection import Connection

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n[1,2]"
EMPTY = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n"


class Recorder(Connection):
    """Keeps the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[tuple[int, bytes]] = []

    def answered(self, status: int, body: bytes) -> None:
        self.answers.append((status, body))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (PLAIN, (200, b"[1,2]")),
        (EMPTY, (204, b"")),
        (CHUNKED, (200, b"3\r\n[1,\r\n2\r\n2]\r\n0\r\n\r\n")),
    ],
    ids=["plain", "empty", "chunked"],
)
def test_answer_is_complete_wherever_it_is_cut(answer: bytes, expected: tuple[int, bytes]) -> None:
    for cut in range(1, len(answer)):
        connection = Recorder()
        connection.data_received(answer[:cut])
        assert connection.answers == []
        connection.data_received(answer[cut:])
        assert connection.answers == [expected]


def test_connection_is_ready_for_the_next_answer() -> None:
    connection = Recorder()
    for answer in (CHUNKED, PLAIN, EMPTY):
        connection.data_received(answer)
    assert [status for status, _ in connection.answers] == [200, 200, 204]
