"""Parsers of configured values, from TOML and from the text of a variable."""

from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Literal

import pytest

from hostsvc.config_values import is_base_url, is_visible_ascii, parser_for
from storage.model import Source

NETWORKS = tuple[IPv4Network | IPv6Network, ...]
LEVEL = Literal["debug", "info"]


@pytest.mark.parametrize(
    ("hint", "toml", "text", "value"),
    [
        (str, "a b", "a b", "a b"),
        (int, -5, "-5", -5),
        (bool, True, "true", True),
        (float, 2, "2", 2.0),
        (float, 0.5, "0.5", 0.5),
        (Path, "data", "data", Path("data")),
        (LEVEL, "info", "info", "info"),
        (tuple[str, ...], ["a", "b c"], "a, b c", ("a", "b c")),
        (frozenset[Source], ["sms"], "sms", frozenset({Source.SMS})),
        (NETWORKS, ["10.0.0.0/8"], "10.0.0.0/8", (ip_network("10.0.0.0/8"),)),
    ],
)
def test_value_is_read_from_toml_and_from_text(hint: Any, toml: object, text: str, value: object) -> None:
    reader = parser_for(hint)
    assert reader.from_toml(toml) == reader.from_text(text) == value


@pytest.mark.parametrize(
    ("hint", "toml"),
    [
        (str, 1),
        (str, "a\0"),
        (int, True),
        (int, 1.0),
        (bool, 1),
        (float, "1"),
        (float, float("nan")),
        (float, 2**53 + 1),
        (Path, " "),
        (LEVEL, "INFO"),
        (tuple[str, ...], "a"),
        (tuple[str, ...], [1]),
        (frozenset[Source], ["fax"]),
        (NETWORKS, ["10.0.0.1/8"]),
    ],
)
def test_toml_of_another_type_is_not_converted(hint: Any, toml: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- the caller words the message
        parser_for(hint).from_toml(toml)


def test_choice_lists_its_values() -> None:
    assert parser_for(LEVEL).takes == "one of debug, info"


@pytest.mark.parametrize(
    "url", ["http://a", "https://example.org:8443/v1", "http://[::1]:80", "http://10.0.0.1/a/b"]
)
def test_base_url_has_host_and_optionally_port_and_path(url: str) -> None:
    assert is_base_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://a",
        "http://",
        "http://a:0",
        "http://a:99999",
        "http://me:pw@a",
        "http://a?q=1",
        "http://a#x",
        "http://a b",
        "http://a/\n",
        "http://[::1",
        "http://a..b",
    ],
)
def test_other_urls_are_no_base_url(url: str) -> None:
    assert not is_base_url(url)


@pytest.mark.parametrize(("text", "expected"), [("", True), ("sk-a~!", True), ("a b", False), ("ä", False)])
def test_visible_ascii_excludes_spaces_and_other_characters(text: str, expected: bool) -> None:
    assert is_visible_ascii(text) is expected
