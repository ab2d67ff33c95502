"""Names that lead to private addresses: no call reaches one, whatever a real name server answers."""

import json
from functools import cache
from typing import Any

import pytest

from tests.hostsvc.outbound import closed_network
from tests.hostsvc.outbound.rebinding import (
    ALIASES,
    ALTERNATING,
    CALLS,
    FORBIDDEN,
    PRIVATE,
    PUBLIC,
    PUBLIC6,
    REDIRECT,
)

pytestmark = pytest.mark.skipif(
    not closed_network.command(), reason="this machine does not let us make a network of our own (unshare)"
)


@cache
def results() -> Any:
    """Make all calls, once for all tests."""
    return json.loads(closed_network.run_module("tests.hostsvc.outbound.rebinding"))


def outcomes_of(name: str) -> list[str]:
    outcomes: list[str] = results()["outcomes"][f"http://{name}/"]
    return outcomes


def is_refusal(outcome: str) -> bool:
    return outcome.startswith("AddressRefused: ") and outcome.endswith("calls go to public addresses only.")


def test_calls_reach_public_addresses_only() -> None:
    assert results()["reached"].keys() == {PUBLIC, PUBLIC6}


def test_attacks_reach_private_addresses_without_the_guard() -> None:
    assert {*PRIVATE, "127.0.0.1", "127.0.0.53", "::1", "fd00::1"} <= set(results()["reached_unguarded"])


@pytest.mark.parametrize("number", range(len(FORBIDDEN)), ids=FORBIDDEN)
def test_name_of_forbidden_address_is_refused(number: int) -> None:
    [outcome] = outcomes_of(f"n{number}.test")
    assert is_refusal(outcome)
    assert FORBIDDEN[number] not in outcome, "an internal name must not reveal its address"


@pytest.mark.parametrize("name", [name for name in ALTERNATING if name != "rebound-families.test"])
def test_rebound_name_is_judged_by_the_lookup_of_each_call(name: str) -> None:
    public, rebound = outcomes_of(name)[::2], outcomes_of(name)[1::2]
    assert public == ["204"] * (CALLS // 2)
    assert all(map(is_refusal, rebound))
    assert results()["queries"][name] == CALLS, "there must be no second lookup between check and connection"


def test_public_address_beside_private_ones_is_called() -> None:
    assert outcomes_of("many.test") == ["204"]
    assert outcomes_of("rebound-families.test") == ["204"] * CALLS


@pytest.mark.parametrize("name", [*ALIASES, "loop.test", "db.corp.test", "db", "private.test"])
def test_alias_of_private_address_is_refused(name: str) -> None:
    [outcome] = outcomes_of(name)
    assert is_refusal(outcome)


@pytest.mark.parametrize(
    "name", ["public.test", "public6.test", "public-alias.test", "public.test.", "PUBLIC.test"]
)
def test_name_of_public_address_is_called(name: str) -> None:
    assert outcomes_of(name) == ["204"]


def test_redirect_to_private_address_is_not_followed() -> None:
    assert results()["outcomes"][REDIRECT] == ["307"]
