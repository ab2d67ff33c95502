"""Answers of adapter tools: results and errors."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.outbound import OutboundAnswer
from supervisors.tools.answers import result_of
from supervisors.tools.errors import ToolError

JSON = "application/json"
UNKNOWN_TYPE = "application/octet-stream"
HTML = b"<!doctype html><title>Log in</title>"


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        (JSON, b'{"a": [1, null]}', {"a": [1, None]}),
        ("application/problem+json; charset=utf-8", b"7", 7),
        ("Application/JSON", b"null", None),
        (JSON, b"", None),
        (JSON, b" \n", None),
        ("text/plain; charset=utf-8", "Grüße".encode(), "Grüße"),
        ("text/plain", b'{"a": 1}', '{"a": 1}'),
        ("text/markdown", b"# Hi\xff", "# Hi\ufffd"),
        (UNKNOWN_TYPE, b'{"a": 1}', {"a": 1}),
        ("", b"fine", "fine"),
        (JSON, b"99999999999999999999", 1e20),
        (JSON, b"[" * 64 + b"]" * 64, orjson.loads(b"[" * 64 + b"]" * 64)),
        ("text/html", b"", None),
    ],
)
def test_answer_is_parsed_by_its_content_type(content_type: str, body: bytes, expected: Any) -> None:
    assert result_of(OutboundAnswer(200, content_type, body)) == expected


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        (JSON, b"{", "The tool answered invalid JSON: "),
        (JSON, b"NaN", "The tool answered invalid JSON: "),
        (JSON, b'"\xff"', "The tool answered invalid JSON: "),
        (JSON, b'"\\ud800"', "The tool answered invalid JSON: "),
        (JSON, b"1" * 400, "The tool answered invalid JSON: "),
        (JSON, b"[" * 65 + b"]" * 65, "The tool answered JSON that is nested deeper than 64 levels."),
        (JSON, b'{"a":' * 65 + b"1" + b"}" * 65, "The tool answered JSON that is nested deeper"),
        ("text/html; charset=utf-8", HTML, "The tool answered text/html, which is neither JSON nor text."),
        ("image/png", b"\x89PNG", "The tool answered image/png, which is neither JSON nor text."),
        (UNKNOWN_TYPE, b"\x89PNG", "The tool answered bytes that are neither JSON nor text."),
    ],
)
def test_unusable_answer_is_an_error(content_type: str, body: bytes, message: str) -> None:
    with pytest.raises(ToolError) as refused:
        result_of(OutboundAnswer(200, content_type, body))
    assert refused.value.code == "unusable_answer"
    assert refused.value.message.startswith(message)


@pytest.mark.parametrize(
    ("status", "content_type", "body", "message"),
    [
        (500, "text/plain", b"Out  of\n\x00paper", "The tool answered 500: Out of paper"),
        (400, JSON, b'{"error":"no such city"}', 'The tool answered 400: {"error":"no such city"}'),
        (502, "text/html", HTML, "The tool answered 502."),
        (503, "text/plain", HTML, "The tool answered 503."),
        (404, "image/png", b"\x89PNG", "The tool answered 404."),
        (302, "text/plain", b"", "The tool answered 302."),
        (500, "text/plain", b"x" * 5000, f"The tool answered 500: {'x' * 300}…"),
    ],
)
def test_failed_status_is_an_error_with_an_excerpt(
    status: int, content_type: str, body: bytes, message: str
) -> None:
    with pytest.raises(ToolError) as refused:
        result_of(OutboundAnswer(status, content_type, body))
    error = {"code": "tool_failed", "message": message, "status": status}
    assert refused.value.as_json() == error


@given(
    st.sampled_from([200, 204, 299, 300, 404, 500]),
    st.sampled_from([JSON, UNKNOWN_TYPE, "text/plain", "text/html", "image/png", ";", ""]),
    st.one_of(st.binary(max_size=40), st.text('[]{}",:01eE.-nul\\', max_size=30).map(str.encode)),
)
def test_any_answer_is_a_serializable_result_or_an_error(status: int, content_type: str, body: bytes) -> None:
    try:
        outcome: dict[str, Any] = {"result": result_of(OutboundAnswer(status, content_type, body))}
    except ToolError as error:
        outcome = {"error": error.as_json()}
    assert orjson.dumps(outcome)
    assert "\0" not in outcome.get("error", {}).get("message", "")
