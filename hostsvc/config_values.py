"""Parsers of configured values: from TOML types, which are not converted, or from the text of a variable."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from urllib.parse import urlsplit

from hostsvc import model_prices
from storage.model import Source
from supervisors.scalars import INTEGER_TEXT, NUMBER_TEXT


@dataclass(frozen=True, slots=True)
class ValueParser:
    """Parses values of one type, described by `takes`; both functions raise ValueError for anything else."""

    takes: str
    from_toml: Callable[[object], Any]
    from_text: Callable[[str], Any]


def parser_for(hint: object) -> ValueParser:
    """Return the parser for the declared type of a setting."""
    if get_origin(hint) is Literal:
        return _choice(get_args(hint))
    return VALUE_PARSERS[hint]


def is_base_url(text: str) -> bool:
    """Return whether this is http(s)://host[:port][/path] without user, query or fragment."""
    try:
        parts = urlsplit(text)
        port_is_valid = parts.port is None or parts.port > 0
        (parts.hostname or "").encode("idna")
    except ValueError:  # UnicodeError is a subclass
        return False
    return (
        parts.scheme in {"http", "https"}
        and bool(parts.hostname)
        and port_is_valid
        and "@" not in parts.netloc
        and not parts.query
        and not parts.fragment
        and text.isprintable()
        and " " not in text
    )


def is_visible_ascii(text: str) -> bool:
    """Return whether a header can hold this text as a key or token."""
    return all("!" <= character <= "~" for character in text)


def _choice(values: tuple[str, ...]) -> ValueParser:
    def parse(value: object) -> str:
        text = _text(value)
        if text not in values:
            raise ValueError(text)
        return text

    return ValueParser(f"one of {', '.join(values)}", parse, parse)


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError(value)
    return value


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(value)
    return value


def _integer_from_text(text: str) -> int:
    # int() alone takes 1_000, blanks and digits of other scripts.
    if not INTEGER_TEXT.fullmatch(text):
        raise ValueError(text)
    return int(text)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _boolean_from_text(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(text)
    return text == "true"


def _number(value: object) -> float:
    if isinstance(value, float) and math.isfinite(value):
        return value
    whole = _integer(value)
    if abs(whole) > 2**53:
        raise ValueError(value)
    return float(whole)


def _number_from_text(text: str) -> float:
    if not NUMBER_TEXT.fullmatch(text):
        raise ValueError(text)
    return float(text)


def _path(value: object) -> Path:
    text = _text(value)
    if not text.strip():
        raise ValueError(value)
    return Path(text)


def _strings(value: object) -> list[str]:
    if not isinstance(value, list):
        raise ValueError(value)
    return [_text(item) for item in value]


def _strings_from_text(text: str) -> list[str]:
    return [item.strip() for item in text.split(",")] if text.strip() else []


def _list_parser(takes: str, convert: Callable[[list[str]], Any]) -> ValueParser:
    return ValueParser(
        takes,
        from_toml=lambda value: convert(_strings(value)),
        from_text=lambda text: convert(_strings_from_text(text)),
    )


VALUE_PARSERS: Mapping[object, ValueParser] = {
    str: ValueParser("text", _text, _text),
    int: ValueParser("an integer", _integer, _integer_from_text),
    bool: ValueParser("true or false", _boolean, _boolean_from_text),
    float: ValueParser("a number", _number, _number_from_text),
    Path: ValueParser("a path", _path, _path),
    tuple[str, ...]: _list_parser("a list of texts", tuple),
    model_prices.ConfiguredPrices: ValueParser(
        model_prices.TAKES, model_prices.parse_prices, model_prices.parse_prices_from_text
    ),
    frozenset[Source]: _list_parser(
        f"a list of sources ({', '.join(Source)})", lambda items: frozenset(map(Source, items))
    ),
    tuple[IPv4Network | IPv6Network, ...]: _list_parser(
        'a list of networks such as "10.0.0.0/8"', lambda items: tuple(map(ip_network, items))
    ),
}
