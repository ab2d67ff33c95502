"""The judge of parked calls: each is decided once, made once, told of once; grants cover what they say.

It knows the tool server's list of calls and what people decided, and computes without `supervisors.policy`
what may have been made.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

import orjson

from hostsvc_testing.memory.tables import Calls, Made, Tables
from storage.parked_calls import CallState, ParkedCall
from supervisors.policy.parked_calls import Decision

INVARIANT = "Parked calls"
WAITING = frozenset({CallState.PENDING, CallState.DUE, CallState.CALLING, CallState.WAITING})


def differences(tables: Tables, now: datetime, patience: timedelta) -> Iterator[tuple[ParkedCall, str]]:
    """Yield the calls with which something went wrong, and what. A call that is due waits for `patience`."""
    calls = tables.calls
    counts = Counter(made.call_id for made in calls.made)
    for call in calls.rows.values():
        yield from ((call, what) for what in _of_decision(calls, call))
        yield from ((call, what) for what in _of_making(calls, call, counts[call.id]))
        yield from ((call, what) for what in _of_telling(tables, calls, call))
        if call.due_at is not None and call.due_at < now - patience:
            yield call, f"it is {call.state}, was due at {call.due_at}, and nothing has happened"
        if call.due_at is None and call.state in WAITING - {CallState.PENDING}:
            yield call, f"it is {call.state}, and nothing will ever happen"
    for made in calls.made:
        if made.grant_id is not None and not _covers(calls, made):
            yield calls.rows[calls.grants[made.grant_id].call_id], f"its grant let {made.amount} through"


def _decision(calls: Calls, call: ParkedCall) -> Decision | None:
    """Return the decision that was stored, among all that people have sent."""
    sent = (decision for call_id, decision in calls.proposed if call_id == call.id)
    return next((decision for decision in sent if decision.digest == call.decision_digest), None)


def _of_decision(calls: Calls, call: ParkedCall) -> Iterator[str]:
    acknowledged, stored = calls.acknowledged.get(call.id), _decision(calls, call)
    if acknowledged is not None and acknowledged != stored:
        yield f"the decision {acknowledged} was acknowledged, and {stored} is stored"


def _of_making(calls: Calls, call: ParkedCall, count: int) -> Iterator[str]:
    decision = _decision(calls, call)
    if count and (decision is None or not decision.approve):
        yield "it was made without an approval"
    if count > 1 and call.id not in calls.harmless:
        yield f"it was made {count} times"
    if call.state is CallState.DONE and not count:
        yield "it is done, and was never made"
    amounts = {made.amount for made in calls.made if made.call_id == call.id}
    if decision is not None and amounts - {_amount(call, decision)}:
        yield f"it was made with {amounts}"


def _amount(call: ParkedCall, decision: Decision) -> int:
    amount: int = orjson.loads(decision.arguments or call.arguments)["amount"]
    return amount


def _of_telling(tables: Tables, calls: Calls, call: ParkedCall) -> Iterator[str]:
    count = calls.told.count(call.id)
    if count > 1:
        yield f"its agent was told {count} times"
    if count == 0 and call.state not in WAITING and tables.agent(call.agent_id) is not None:
        yield f"it is {call.state}, and nobody was told"
    if count and call.state in WAITING:
        yield f"its agent was told, and it is {call.state}"


def _covers(calls: Calls, made: Made) -> bool:
    """Return whether what a person has allowed includes this call."""
    assert made.grant_id is not None
    call = calls.rows[calls.grants[made.grant_id].call_id]
    decision = _decision(calls, call)
    terms = decision.grant if decision else None
    if decision is None or terms is None or made.agent_id != call.agent_id:
        return False
    uses = [each for each in calls.made if each.grant_id == made.grant_id]
    if terms.max_uses is not None and len(uses) > terms.max_uses:
        return False
    if terms.until is not None and made.at > terms.until:
        return False
    if terms.is_exact:
        return made.amount == _amount(call, decision)
    return terms.schema is None or made.amount <= terms.schema["properties"]["amount"]["maximum"]
