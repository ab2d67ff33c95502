-- The core schema: accounts, templates, agents and their state, the notification queue, runs and
-- traces; and the triggers that let other programs write to the queue.
-- Free JSON from clients is stored as json, not jsonb, so that the order of keys is kept.

CREATE TABLE instance (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    epoch bigint NOT NULL DEFAULT 0,            -- incremented by each new leader; fences its predecessor's writes
    token_secret text,                          -- signs user tokens unless the configuration sets a secret
    operator_token text,                        -- authenticates operators, likewise
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
    token_version integer NOT NULL DEFAULT 1,   -- part of each token; incrementing it revokes all older tokens
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

-- The settings of an agent. People change them, seldom; agent_state holds the columns that change at every wake.
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
    deleted_at timestamptz,                     -- set on deletion; the row stays for traces and usage that name it
    emptied_at timestamptz                      -- set once the queue, runs and channels of a deleted agent are gone
);
-- Not a partial index on undeleted agents: without statistics PostgreSQL expects them to be very few, and would
-- read all of them to find one by its id.
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

-- The activity of an agent, and when its supervisor must act next. Only the supervisor writes it, except for
-- wake_seq and next_due_at, which change as well whenever a notification becomes active.
-- The rows are narrow and the pages have room, so that a wake updates a row in place (HOT) unless next_due_at
-- changes.
CREATE TABLE agent_state (
    agent_id uuid PRIMARY KEY REFERENCES agent (id) ON DELETE CASCADE,
    status text NOT NULL DEFAULT 'sleeping' CHECK (status IN ('running', 'sleeping', 'archived')),
    run_id uuid,                                -- the active run; null if there is none
    run_started_at timestamptz,                 -- this and the next two are visible to clients, who may write them
    last_wake_reason text NOT NULL DEFAULT '',
    last_wake_interrupted_sleep_until timestamptz,
    sleep_until timestamptz,
    max_sleep_until timestamptz,                -- the cap on sleep_until of the current or last run
    last_started_at timestamptz,
    last_ended_at timestamptz,
    stopped_at timestamptz,                     -- notifications active by then do not start a run
    run_requested_at timestamptz,               -- when a run was requested that has not started yet
    queued_at timestamptz,                      -- since when the agent waits for a run slot
    failures integer NOT NULL DEFAULT 0,        -- failed runs in a row
    retries integer NOT NULL DEFAULT 0,         -- backoffs in a row without progress
    left_over integer NOT NULL DEFAULT 0,       -- active notifications that the last run left; fewer mean progress
    retry_at timestamptz,
    retry_reason text NOT NULL DEFAULT '',
    last_error text NOT NULL DEFAULT '',
    wake_seq bigint NOT NULL DEFAULT 0,         -- incremented when a notification becomes active or is scheduled to
    next_due_at timestamptz,
    seen_until timestamptz,                     -- latest activated_at at the last start, if the clock was set back
    version bigint NOT NULL DEFAULT 0           -- incremented by each update; a late update must have no effect
) WITH (fillfactor = 60);
CREATE INDEX agent_state_due ON agent_state (next_due_at, agent_id) WHERE next_due_at IS NOT NULL;
CREATE INDEX agent_state_queued ON agent_state (queued_at, agent_id) WHERE queued_at IS NOT NULL;

-- The queue. activated_at is when a high, uncleared notification last became or will become active.
-- A reminder has its due time there from the start, so nothing is written when it falls due.
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
    notifications uuid[] NOT NULL DEFAULT '{}', -- those active when the run started
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

-- Apart from span: metadata can be very large and is read for one span at a time.
CREATE TABLE span_metadata (
    span_id uuid PRIMARY KEY,
    metadata json NOT NULL
);

-- Other programs may write to the queue. The service marks its own connections with the setting hostsvc.origin;
-- for all other connections these triggers do what the service does itself. They use the search path of the
-- migration, because that of another program may be different, or empty as in the output of pg_dump.

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

-- Makes the agents due at the given moments and rings the doorbell for them. Low notifications never lead here.
-- A ring names up to 200 agents, because a payload has at most 8000 bytes. For more than 5000 agents in one
-- statement it names none, which makes the service check all agents, a page at a time.
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

-- A notification that is no longer active, was postponed or went to another agent may have been the only reason
-- for which its agent was waiting, so that agent is due now.
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
