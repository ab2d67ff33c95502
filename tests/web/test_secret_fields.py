"""Fields about secrets: names that the environment takes, values, and headers that a call can carry."""

from typing import Any

import pytest
from marshmallow import ValidationError

from web.secret_fields import (
    MAX_ENVIRONMENT_SECRETS,
    MAX_HEADERS,
    MAX_VALUE_BYTES,
    SecretHeaders,
    SecretName,
    SecretNames,
    SecretValue,
)


def refusal(field: Any, value: Any) -> Any:
    with pytest.raises(ValidationError) as refused:
        field.deserialize(value)
    return refused.value.messages


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "_", "a1", "PATHS", "GITHUB_TOKEN", "X" * 128])
def test_name_of_a_variable_is_accepted(name: str) -> None:
    assert SecretName().deserialize(name) == name


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A=B", "A B", " A", "A\n", "Ä", "X" * 129, "A\x00"])
def test_name_that_no_variable_can_have_is_refused(name: str) -> None:
    [message] = refusal(SecretName(), name)
    assert "\n" not in message


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "path",
        "HOME",
        "HOSTSVC_RUN_TOKEN",
        "hostsvc_url",
        "LD_PRELOAD",
        "LC_ALL",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "BASH_ENV",
        "GIT_SSH_COMMAND",
        "https_proxy",
    ],
)
def test_reserved_name_is_refused_with_a_way_out(name: str) -> None:
    [message] = refusal(SecretName(), name)
    assert message == f'"{name}" is reserved for the system; choose another name, such as MY_{name}.'
    assert SecretName().deserialize(f"MY_{name}") == f"MY_{name}"


def test_value_is_unchanged_up_to_64_kib() -> None:
    longest = "ß" * (MAX_VALUE_BYTES // 2)
    for value in (" a\r\nb\n", longest):
        assert SecretValue().deserialize(value) == value
    message = f"Ensure this field has no more than {MAX_VALUE_BYTES} bytes."
    assert refusal(SecretValue(), f"{longest}x") == [message]
    for bad in ("", None, {"a": "hunter2"}, "hunter2\x00", "hunter2" * MAX_VALUE_BYTES):
        assert "hunter2" not in str(refusal(SecretValue(required=True), bad))


def test_names_count_once_and_are_limited() -> None:
    names = [f"A{number}" for number in range(MAX_ENVIRONMENT_SECRETS)]
    assert SecretNames().deserialize(names) == names
    assert refusal(SecretNames(), [*names, "B"]) == ["Ensure this field has no more than 24 elements."]
    assert SecretNames().deserialize(["B", "A", "B"]) == ["B", "A"]
    assert list(refusal(SecretNames(), ["A", "PATH"])) == [1]


@pytest.mark.parametrize("header", ["Authorization", "x-api-key", "User-Agent", "A" * 64])
def test_header_of_the_tool_is_accepted(header: str) -> None:
    assert SecretHeaders().deserialize({header: "CRM_KEY"}) == {header: "CRM_KEY"}


@pytest.mark.parametrize(
    "header",
    [
        "",
        "A B",
        "A:",
        "A\r\nHost",
        "Ä",
        "A" * 65,
        "Host",
        "content-length",
        "Transfer-Encoding",
        "webhook-signature",
        "Idempotency-Key",
        "X-Forwarded-For",
    ],
)
def test_header_that_the_service_sets_or_cannot_send_is_refused(header: str) -> None:
    [messages] = refusal(SecretHeaders(), {header: "CRM_KEY"}).values()
    assert len(messages) == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], 'Expected a dictionary of items but got type "list".'),
        ({"a": "A", "A": "B"}, "Headers do not differ by case; this one is given twice."),
        ({"a": "sk-live 1"}, "Enter the name of an environment variable"),
        ({"a": None}, "This field may not be null."),
        ({"a": {"b": 1}}, "Not a valid string."),
        ({f"h{n}": "A" for n in range(MAX_HEADERS + 1)}, "Ensure this field has no more than 20 headers."),
    ],
)
def test_wrong_headers_are_refused_with_the_reason(value: Any, message: str) -> None:
    messages = refusal(SecretHeaders(), value)
    texts = messages if isinstance(messages, list) else [text for each in messages.values() for text in each]
    assert [text for text in texts if message in text]
    assert "sk-live" not in str(texts)
