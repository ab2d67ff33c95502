"""Positions in sorted lists of agents, as text in the address of the next page."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from storage.agents.sorted_agents import AgentSort, Position, Value
from web.errors import Invalid

UNKNOWN = (
    "This is no position in a list of this order: take the address of the next page from the Link header."
)
MAX_COUNT = 2**63
MAX_EXPONENT = 1000  # far beyond any cost, and well within what the database can compare


def write_position(position: Position) -> str:
    """Return the position as text."""
    value = None if position.value is None else str(position.value)
    parts = [value, position.created_at.isoformat(), str(position.id)]
    return urlsafe_b64encode(orjson.dumps(parts)).rstrip(b"=").decode()


def read_position(text: str, sort: AgentSort) -> Position:
    """Return the position that `write_position` wrote. Raise Invalid for any other text."""
    try:
        value, created_at, agent_id = orjson.loads(urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        read = None if value is None else READERS[sort](_text(value))
        return Position(read, _instant(_text(created_at)), UUID(_text(agent_id)))
    except (ValueError, ArithmeticError, KeyError):
        raise Invalid({"after": [UNKNOWN]}) from None


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\x00" in value:
        raise ValueError(value)
    return value


def _instant(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(text)
    return moment.astimezone(UTC)  # fails beyond the first and the last year, which no database stores


def _amount(text: str) -> Decimal:
    amount = Decimal(text)
    if not amount.is_finite() or abs(amount.adjusted()) > MAX_EXPONENT:
        raise ValueError(text)
    return amount


def _count(text: str) -> int:
    count = int(text)
    if not 0 <= count < MAX_COUNT:
        raise ValueError(text)
    return count


READERS: dict[AgentSort, Callable[[str], Value]] = {
    AgentSort.NAME: str,
    AgentSort.NEXT_WAKE: _instant,
    AgentSort.COST: _amount,
    AgentSort.UNCLEARED: _count,
}
