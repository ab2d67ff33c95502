"""The journal of a run at its end: from the log of its harness, or else from what is stored about it."""

from uuid import UUID

from storage.postgres.json_values import to_json
from supervisors.engine.run import ActiveRun
from supervisors.policy.journal import entries_of
from supervisors.ports import StateStore


async def journal_of(store: StateStore, run_id: UUID, run: ActiveRun | None) -> str:
    """Return the journal as JSON, to be stored with the end of the run.

    A run of a process that is gone, and one of a process harness, left its traces only in the database.
    """
    if run is not None and run.log is not None:
        facts = run.log.facts(run.cost_usd)
    else:
        facts = await store.get_journal_facts(run_id)
    return to_json(entries_of(facts)).decode()
