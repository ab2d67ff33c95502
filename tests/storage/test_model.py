"""The model: the few rules that its values carry."""

from dataclasses import replace
from decimal import Decimal

from storage.agent_facts import AgentState, Budget
from storage.ids import new_id
from storage.model import Role
from tests.storage.factories import receipt, template, user


def test_roles_rank_from_owner_to_member() -> None:
    above = {(one, other) for one in Role for other in Role if one.is_above(other)}
    assert above == {(Role.OWNER, Role.ADMIN), (Role.OWNER, Role.MEMBER), (Role.ADMIN, Role.MEMBER)}


def test_budget_is_reached_when_the_cap_is_spent() -> None:
    budget = Budget(of_organization=False, cap_usd=Decimal(2), spent_usd=Decimal("1.99"))
    assert not budget.is_reached
    assert replace(budget, spent_usd=Decimal(2)).is_reached
    assert replace(budget, cap_usd=Decimal(0), spent_usd=Decimal(0)).is_reached


def test_states_are_equal_whatever_their_version() -> None:
    state = AgentState(new_id(), version=3)
    assert state == replace(state, version=4)
    assert state != replace(state, wake_seq=1)


def test_secrets_are_not_shown() -> None:
    secrets = (
        user(password_hash="secret"),
        template(new_id(), tool_call_secret="secret"),
        receipt(answer=b"secret"),
    )
    for value in secrets:
        assert "secret'" not in repr(value)
