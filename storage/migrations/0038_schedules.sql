-- Schedules: rows whose falling due puts a notification into the queue of their agent.
CREATE TABLE schedule (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    agent_id uuid NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
    name text NOT NULL,
    title text NOT NULL,
    body text NOT NULL,
    priority text NOT NULL CHECK (priority IN ('high', 'low')),
    cron text,
    every_seconds bigint,
    timezone text,                              -- NULL: that of the agent
    starts_at timestamptz,
    ends_at timestamptz,
    max_occurrences integer,
    late_seconds bigint,                        -- NULL: however late
    if_uncleared text NOT NULL,                 -- 'merge' or 'add'
    only_if text NOT NULL,                      -- 'always' or 'waiting'
    jitter_seconds integer NOT NULL,
    watch json,                                 -- tool, arguments and wake_if of its check; NULL: it has none
    paused_reason text NOT NULL,                -- '' while it is armed, 'manual', 'timezone' or 'ended'
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,                   -- as the actor of an event
    next_at timestamptz,                        -- the next occurrence
    due_at timestamptz,                         -- when the service must look at it, at next_at or earlier
    version bigint NOT NULL DEFAULT 0,          -- each change counts it up
    last_at timestamptz,                        -- the last occurrence
    last_outcome text NOT NULL DEFAULT '',
    last_notification_id uuid,                  -- the last one that was inserted
    merged_count integer NOT NULL DEFAULT 0,    -- how many occurrences that one stands for
    notified_count integer NOT NULL DEFAULT 0,
    missed_count bigint NOT NULL DEFAULT 0,
    answer_digest text NOT NULL DEFAULT '',     -- of the last answer to its check; '' before the first
    answer text NOT NULL DEFAULT '',            -- its beginning
    failed_count integer NOT NULL DEFAULT 0,    -- checks in a row that failed
    CONSTRAINT schedule_name_unique UNIQUE (agent_id, name),
    CHECK ((cron IS NULL) <> (every_seconds IS NULL))
) WITH (fillfactor = 80);
CREATE INDEX schedule_due ON schedule (due_at, id) WHERE due_at IS NOT NULL AND watch IS NULL;
CREATE INDEX schedule_check_due ON schedule (due_at, id) WHERE due_at IS NOT NULL AND watch IS NOT NULL;
CREATE INDEX schedule_of_organization ON schedule (organization_id, created_at DESC, id DESC);
CREATE INDEX schedule_coming ON schedule (organization_id, next_at) WHERE paused_reason = '';
CREATE INDEX schedule_without_zone ON schedule (organization_id) WHERE paused_reason = 'timezone';

-- Whether a repeated call does no harm, so that checks of schedules may call it.
ALTER TABLE tool ADD COLUMN idempotent boolean NOT NULL DEFAULT false;

-- What became of the last occurrences. The primary key lets each happen once.
CREATE TABLE schedule_occurrence (
    schedule_id uuid NOT NULL REFERENCES schedule (id) ON DELETE CASCADE,
    occurs_at timestamptz NOT NULL,
    outcome text NOT NULL,
    decided_at timestamptz NOT NULL,
    missed_count integer NOT NULL,              -- earlier ones that it stands for
    notification_id uuid,
    PRIMARY KEY (schedule_id, occurs_at)
);

-- A new zone of an agent, whoever writes it, has the service look at the schedules that follow it. Those of a
-- deleted agent are never due.
CREATE FUNCTION look_at_schedules() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM schedule WHERE agent_id = NEW.id ORDER BY id FOR NO KEY UPDATE;
    UPDATE schedule
    SET version = version + 1, due_at = CASE WHEN NEW.deleted_at IS NULL THEN to_timestamp(0) END
    WHERE agent_id = NEW.id
      AND (NEW.deleted_at IS NOT NULL OR timezone IS NULL AND paused_reason <> 'ended');
    RETURN NULL;
END
$$;
CREATE TRIGGER agent_schedules AFTER UPDATE OF timezone, deleted_at ON agent FOR EACH ROW
WHEN (OLD.timezone <> NEW.timezone OR OLD.deleted_at IS DISTINCT FROM NEW.deleted_at)
EXECUTE FUNCTION look_at_schedules();
