-- The event log: one row for each change, inserted by the statement that makes the change.
--
-- Ids come from a sequence, so two transactions may commit in another order than that of their ids. A reader
-- therefore reads up to the last id below which no transaction is in progress; `storage/events/reader.py` says how
-- it knows. An insert locks the table (ROW EXCLUSIVE) before it takes its first id, which that rule needs. Do not
-- give the sequence a cache: sessions would take ids far ahead, and each would leave a gap.
CREATE TABLE event (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    type text NOT NULL,
    organization_id uuid NOT NULL,
    -- No foreign keys: events outlive what they are about.
    agent_id uuid,
    run_id uuid,
    -- The notification, message, delivery or other resource that the event is about; NULL: the agent or the run.
    resource_id uuid,
    -- Who made the change: 'run:<id>', 'key:<id>', 'user:<id>', 'operator', 'program' (by SQL), '': the service.
    actor text NOT NULL DEFAULT '',
    -- The phase that the agent is in from now on; NULL: the event does not change it.
    phase text,
    -- What has changed, a small JSON object.
    data json NOT NULL DEFAULT '{}'
);
CREATE INDEX event_of_organization ON event (organization_id, id);
CREATE INDEX event_of_agent ON event (agent_id, id) WHERE agent_id IS NOT NULL;
CREATE INDEX event_of_run ON event (run_id, id) WHERE run_id IS NOT NULL;
-- Pauses: the streams and timelines of all agents of the organization show them.
CREATE INDEX event_without_agent ON event (organization_id, id) WHERE agent_id IS NULL;
CREATE INDEX event_of_agent_phase ON event (agent_id, at, id) INCLUDE (phase) WHERE phase IS NOT NULL;

-- What the log says of the agent: its phase, since when, and a digest of the sentence that explains it. The next event
-- is written when one of them changes.
ALTER TABLE agent_state
    ADD COLUMN phase text NOT NULL DEFAULT 'asleep',
    ADD COLUMN phase_since timestamptz,
    ADD COLUMN why_digest bigint NOT NULL DEFAULT 0;
UPDATE agent_state SET phase = status, phase_since = coalesce(run_started_at, stopped_at) WHERE status <> 'sleeping';
