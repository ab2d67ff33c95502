-- What the main job needs: accounts, templates, agents with their narrow state, the
-- notification queue, runs, traces; and the trigger that lets other programs write the queue.
-- What clients send as free JSON is json, not jsonb: it comes back with its keys in their order.

CREATE TABLE instance (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    epoch bigint NOT NULL DEFAULT 0,            -- bumped by each leader; fences the writes of the one before
    token_secret text,                          -- signs user tokens where the configuration gives no secret
    operator_token text,                        -- likewise for operators
    created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO instance DEFAULT VALUES;

CREATE TABLE organization (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL
);

CREATE TABLE user_account (
    id uuid PRIMARY KEY,
    email text NOT NULL,
    name text NOT NULL DEFAULT '',
    password_hash text NOT NULL,
    token_version integer NOT NULL DEFAULT 1,   -- part of each token; a bump ends all older ones
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX user_account_email_unique ON user_account (lower(email));

CREATE TABLE membership (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    user_id uuid NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    role text NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    created_at timestamptz NOT NULL,
    CONSTRAINT membership_unique UNIQUE (user_id, organization_id)
);
CREATE INDEX membership_of_organization ON membership (organization_id);

CREATE TABLE api_key (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    name text NOT NULL,
    prefix text NOT NULL,
    key_hash bytea NOT NULL,                    -- SHA-256 of the whole key
    is_active boolean NOT NULL DEFAULT true,
    last_used_at timestamptz,
    created_at timestamptz NOT NULL,
    CONSTRAINT api_key_prefix_unique UNIQUE (prefix)
);
CREATE INDEX api_key_of_organization ON api_key (organization_id, created_at DESC, id DESC);

CREATE TABLE template (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    name text NOT NULL,
    description text NOT NULL DEFAULT '',
    system_prompt text NOT NULL DEFAULT '',
    default_model text NOT NULL DEFAULT '',
    default_reasoning_effort text NOT NULL DEFAULT 'none',
    thinking_max_tokens integer NOT NULL DEFAULT 0,
    max_turns integer NOT NULL DEFAULT 0,
    debounce_window_seconds integer NOT NULL DEFAULT 0,
    harness_git_ref text NOT NULL DEFAULT '',
    agent_created_webhook_url text NOT NULL DEFAULT '',
    tool_call_secret text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL
);
CREATE INDEX template_of_organization ON template (organization_id, created_at DESC, id DESC);

CREATE TABLE adapter (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    name text NOT NULL,
    description text NOT NULL DEFAULT '',
    visibility text NOT NULL DEFAULT 'private' CHECK (visibility IN ('public', 'private')),
    detail_url text NOT NULL DEFAULT '',
    config_schema json NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL
);

-- What an agent is. Changed by people, seldom; what changes at every wake is in agent_state.
CREATE TABLE agent (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    template_id uuid REFERENCES template (id),
    parent_id uuid REFERENCES agent (id) ON DELETE SET NULL,
    name text NOT NULL,
    model text NOT NULL,
    timezone text NOT NULL DEFAULT 'UTC',
    system_prompt text NOT NULL DEFAULT '',
    email_alias text,
    tags text[] NOT NULL DEFAULT '{}',
    max_turns integer NOT NULL DEFAULT 0,
    max_sleep_hours integer,
    harness_git_ref text,
    reasoning_effort text NOT NULL DEFAULT '',
    debounce_window_seconds integer,
    call_voice_id text NOT NULL DEFAULT '',
    purpose text NOT NULL DEFAULT 'production',
    created_at timestamptz NOT NULL,
    deleted_at timestamptz,                     -- the row outlives its deletion for the traces that name it
    emptied_at timestamptz                      -- nothing else is left of it any more
);
-- Not only of those that are not deleted: until it has statistics PostgreSQL takes these for very few, and would
-- read them all to find one by its id.
CREATE INDEX agent_of_organization ON agent (organization_id, created_at DESC, id DESC);
CREATE INDEX agent_of_template ON agent (template_id) WHERE template_id IS NOT NULL;
CREATE INDEX agent_of_parent ON agent (parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX agent_deleted ON agent (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX agent_to_empty ON agent (deleted_at) WHERE deleted_at IS NOT NULL AND emptied_at IS NULL;
CREATE UNIQUE INDEX agent_email_alias_unique ON agent (lower(email_alias)) WHERE email_alias IS NOT NULL;

CREATE TABLE agent_adapter (
    agent_id uuid NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
    adapter_id uuid NOT NULL REFERENCES adapter (id) ON DELETE CASCADE,
    position integer NOT NULL,
    PRIMARY KEY (agent_id, adapter_id)
);
CREATE INDEX agent_adapter_of_adapter ON agent_adapter (adapter_id);

-- What an agent is doing, and when it must be looked at next. Written by its supervisor alone,
-- but for wake_seq and next_due_at, which whoever makes a notification active moves as well.
-- Narrow, and with room on its pages: a wake changes it in place (HOT) unless next_due_at moves.
CREATE TABLE agent_state (
    agent_id uuid PRIMARY KEY REFERENCES agent (id) ON DELETE CASCADE,
    status text NOT NULL DEFAULT 'sleeping' CHECK (status IN ('running', 'sleeping', 'archived')),
    run_id uuid,                                -- the active run, null when there is none
    run_started_at timestamptz,                 -- these three are shown; a client may write them
    last_wake_reason text NOT NULL DEFAULT '',
    last_wake_interrupted_sleep_until timestamptz,
    sleep_until timestamptz,
    max_sleep_until timestamptz,                -- the cap of the current or last run
    last_started_at timestamptz,
    last_ended_at timestamptz,
    stopped_at timestamptz,                     -- what was active before this starts nothing
    run_requested_at timestamptz,               -- a run request that waits for its start
    queued_at timestamptz,                      -- since when a start waits for a run slot
    failures integer NOT NULL DEFAULT 0,        -- runs failed in a row
    retries integer NOT NULL DEFAULT 0,         -- backoffs in a row without progress
    left_over integer NOT NULL DEFAULT 0,       -- active ones that the last run left; fewer are progress
    retry_at timestamptz,
    retry_reason text NOT NULL DEFAULT '',
    last_error text NOT NULL DEFAULT '',
    wake_seq bigint NOT NULL DEFAULT 0,         -- bumped whenever a notification becomes, or is to become, active
    next_due_at timestamptz,
    seen_until timestamptz,                     -- of what the last start saw, if the clock was set back before it
    version bigint NOT NULL DEFAULT 0           -- bumped by each move: one that comes late must not count
) WITH (fillfactor = 60);
CREATE INDEX agent_state_due ON agent_state (next_due_at, agent_id) WHERE next_due_at IS NOT NULL;
CREATE INDEX agent_state_queued ON agent_state (queued_at, agent_id) WHERE queued_at IS NOT NULL;

-- The queue. activated_at is when a high, uncleared notification last became active, or will:
-- a reminder carries the moment it falls due from the start, so falling due writes nothing.
CREATE TABLE notification (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    organization_id uuid NOT NULL,
    agent_id uuid NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
    source text NOT NULL DEFAULT 'api' CHECK (source IN (
        'email', 'sms', 'mms', 'sms_provider_a', 'sms_provider_b',
        'system', 'agent', 'subagent', 'browser', 'api', 'portal')),
    source_id text NOT NULL DEFAULT '',
    title text NOT NULL,
    body text NOT NULL DEFAULT '',
    priority text NOT NULL DEFAULT 'low' CHECK (priority IN ('high', 'low')),
    created_at timestamptz NOT NULL DEFAULT now(),
    scheduled_for timestamptz,
    cleared boolean NOT NULL DEFAULT false,
    cleared_at timestamptz,
    activated_at timestamptz,                   -- null unless high and uncleared
    CONSTRAINT notification_active_when_waiting
        CHECK ((activated_at IS NOT NULL) = (priority = 'high' AND NOT cleared)),
    CONSTRAINT notification_cleared_at CHECK ((cleared_at IS NOT NULL) = cleared),
    CONSTRAINT notification_within_the_calendar
        CHECK (least(created_at, scheduled_for, cleared_at) > '0001-01-01 00:00:00+00'
            AND greatest(created_at, scheduled_for, cleared_at) < '9999-12-31 23:59:59.999999+00')
);
CREATE INDEX notification_of_agent ON notification (agent_id, created_at DESC, id DESC);
CREATE INDEX notification_of_organization ON notification (organization_id, created_at DESC, id DESC);
CREATE INDEX notification_uncleared ON notification (agent_id, created_at, id) WHERE NOT cleared;
CREATE INDEX notification_waiting ON notification (agent_id, activated_at) WHERE activated_at IS NOT NULL;
CREATE INDEX notification_cleared ON notification (cleared_at) WHERE cleared;
CREATE INDEX notification_activated ON notification (activated_at, agent_id) WHERE activated_at IS NOT NULL;

CREATE TABLE run (
    id uuid PRIMARY KEY,                        -- the trace of a run has the same id
    agent_id uuid NOT NULL,
    organization_id uuid NOT NULL,
    wake_reason text NOT NULL,
    notifications uuid[] NOT NULL DEFAULT '{}', -- active at its start
    interrupted_sleep_until timestamptz,
    max_sleep_until timestamptz,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    turns integer NOT NULL DEFAULT 0,
    outcome text CHECK (outcome IN (
        'slept', 'ended', 'turn_limit', 'failed', 'stopped', 'timed_out', 'budget', 'interrupted')),
    error text NOT NULL DEFAULT '',
    CONSTRAINT run_over_with_outcome CHECK ((ended_at IS NOT NULL) = (outcome IS NOT NULL))
);
CREATE INDEX run_of_agent ON run (agent_id, started_at DESC, id DESC);

CREATE TABLE trace (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    name text NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    error text NOT NULL DEFAULT '',
    metadata json NOT NULL DEFAULT '{}'
);
CREATE INDEX trace_of_organization ON trace (organization_id, started_at DESC, id DESC);
CREATE INDEX trace_of_agent ON trace (agent_id, started_at DESC, id DESC);

CREATE TABLE span (
    id uuid PRIMARY KEY,
    trace_id uuid NOT NULL,
    parent_id uuid,
    name text NOT NULL,
    span_type text NOT NULL DEFAULT 'other',
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    error text NOT NULL DEFAULT ''
);
CREATE INDEX span_of_trace ON span (trace_id, started_at, id);

-- Apart from the spans: it can be very large and is read one span at a time.
CREATE TABLE span_metadata (
    span_id uuid PRIMARY KEY,
    metadata json NOT NULL
);

-- Other programs may write the queue. The service marks its own connections by the setting
-- hostsvc.origin; for everybody else these triggers do what the service does itself. They find its tables by the
-- search path of the migration: that of another program may be any, or empty, as in what pg_dump writes.

CREATE FUNCTION notification_complete() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    becomes_active boolean;
BEGIN
    SELECT organization_id INTO NEW.organization_id FROM agent
        WHERE id = NEW.agent_id AND (deleted_at IS NULL OR id = OLD.agent_id);
    IF NOT FOUND THEN
        RAISE foreign_key_violation USING MESSAGE = format('there is no agent %s', NEW.agent_id);
    END IF;
    NEW.cleared_at := CASE WHEN NEW.cleared THEN coalesce(NEW.cleared_at, clock_timestamp()) END;
    IF NEW.priority <> 'high' OR NEW.cleared THEN
        NEW.activated_at := NULL;
    ELSE
        becomes_active := TG_OP = 'INSERT'
            OR OLD.activated_at IS NULL
            OR NEW.agent_id <> OLD.agent_id
            OR NEW.scheduled_for IS DISTINCT FROM OLD.scheduled_for;
        IF becomes_active THEN
            NEW.activated_at := greatest(NEW.scheduled_for, clock_timestamp());
        END IF;
    END IF;
    RETURN NEW;
END $$;

-- Whose attention changed, and from when on: low notifications never get here.
-- A ring names up to 200 agents, as a payload takes 8000 bytes. Beyond 5000 agents in one statement it names
-- none, which tells the service to look at everything, a page at a time.
CREATE FUNCTION agent_ring(agents uuid[], moments timestamptz[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM agent_state WHERE agent_id = ANY (agents) ORDER BY agent_id FOR NO KEY UPDATE;
    UPDATE agent_state s
        SET wake_seq = s.wake_seq + 1,
            next_due_at = CASE
                WHEN s.status = 'sleeping' AND s.queued_at IS NULL THEN least(s.next_due_at, t.due_at)
                ELSE s.next_due_at END
        FROM unnest(agents, moments) AS t (agent_id, due_at)
        WHERE s.agent_id = t.agent_id;
    IF cardinality(agents) > 5000 THEN
        PERFORM pg_notify('hostsvc_doorbell', '');
    ELSE
        PERFORM pg_notify('hostsvc_doorbell', string_agg(agent_id::text, ' '))
            FROM unnest(agents) WITH ORDINALITY AS t (agent_id, number) GROUP BY (number - 1) / 200;
    END IF;
END $$;

CREATE FUNCTION notification_ring() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM agent_ring(array_agg(agent_id), array_agg(due_at))
        FROM (SELECT agent_id, min(activated_at) AS due_at FROM touched
              WHERE activated_at IS NOT NULL GROUP BY agent_id) t;
    RETURN NULL;
END $$;

-- One that no longer waits, waits for longer, or went to another agent, may have been all that an agent was held
-- for: the agent is due for a look, by whoever comes to it first.
CREATE FUNCTION notification_ring_changed() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM agent_ring(array_agg(agent_id), array_agg(due_at))
        FROM (SELECT agent_id,
                     min(CASE WHEN t.activated_at <= b.activated_at OR b.activated_at IS NULL THEN t.activated_at
                              ELSE clock_timestamp() END) AS due_at
              FROM touched t FULL JOIN before b USING (id, agent_id)
              WHERE t.activated_at IS NOT NULL OR b.activated_at IS NOT NULL GROUP BY agent_id) t;
    RETURN NULL;
END $$;

CREATE TRIGGER notification_complete BEFORE INSERT OR UPDATE ON notification
    FOR EACH ROW WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION notification_complete();
CREATE TRIGGER notification_ring_insert AFTER INSERT ON notification
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION notification_ring();
CREATE TRIGGER notification_ring_update AFTER UPDATE ON notification
    REFERENCING OLD TABLE AS before NEW TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION notification_ring_changed();
CREATE TRIGGER notification_ring_delete AFTER DELETE ON notification
    REFERENCING OLD TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION notification_ring();
