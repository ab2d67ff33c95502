"""Answers that are sent without an application."""

from http import HTTPStatus

from web.server.raw_answers import raw_answer


def test_raw_answer_is_a_whole_answer_that_ends_the_connection() -> None:
    head, _, body = raw_answer(HTTPStatus.SERVICE_UNAVAILABLE, "Full.", {"A": "b"}).partition(b"\r\n\r\n")
    status, *headers = head.decode().split("\r\n")
    assert status == "HTTP/1.1 503 Service Unavailable"
    assert body == b'{"detail":"Full."}'
    names = [header.partition(": ")[0] for header in headers]
    assert names == ["Content-Type", "Content-Length", "X-Request-ID", "A", "Connection", "Retry-After"]
    assert f"Content-Length: {len(body)}" in headers


def test_late_request_is_not_asked_to_retry() -> None:
    assert b"Retry-After" not in raw_answer(HTTPStatus.REQUEST_TIMEOUT, "Late.", {})
