"""The replacement of secret values in texts."""

import pytest

from supervisors.hidden_values import MAX_WORDS, hide


@pytest.mark.parametrize(
    ("content", "value", "hidden"),
    [
        ("the key is sk-live-1, sk-live-1!", "sk-live-1", "the key is [secret], [secret]!"),
        ("Authorization: Bearer sk-live-1", "Bearer sk-live-1", "Authorization: [secret]"),
        ("only sk-live-1", "Bearer sk-live-1\n", "only [secret]"),
        ("line two-of-a-key", "line-one-of-a-key\ntwo-of-a-key", "line [secret]"),
        ("schlüsselwort", "schlüsselwort", "[secret]"),
        (r'{"echo": "Basic YWJj\"\\ZGVm"}', 'Basic YWJj"\\ZGVm', '{"echo": "[secret]"}'),
        (r'{"echo": "Basic YWJj\/ZGVm"}', "Basic YWJj/ZGVm", '{"echo": "[secret]"}'),
        (r'{"echo": "schl\u00fcsselwort"}', "schlüsselwort", '{"echo": "[secret]"}'),
        ("a short one", "one", "a short one"),
        ("", "sk-live-1", ""),
    ],
)
def test_value_and_its_words_are_replaced(content: str, value: str, hidden: str) -> None:
    assert hide(content.encode(), [value]).decode() == hidden


def test_value_that_contains_another_is_replaced_as_a_whole() -> None:
    assert hide(b"password-and-more password", ["password", "password-and-more"]) == b"[secret] [secret]"


def test_number_of_words_is_bounded() -> None:
    words = [f"word-{number:05}" for number in range(MAX_WORDS * 2)]
    assert hide(" ".join(words).encode(), words).count(b"word-") == MAX_WORDS
