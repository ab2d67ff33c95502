-- Parked calls: what an agent waits for that may take days. Nothing of the wait is in the memory of a process.
-- Whatever ends it is stored here together with a notification for the agent.
CREATE TABLE parked_call (
    id uuid PRIMARY KEY,                        -- that of the call, and of its span
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    agent_id uuid NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
    run_id uuid,                                -- that made the call; NULL: a client did
    kind text NOT NULL,                         -- 'approval', 'question', 'result' or 'input'
    state text NOT NULL,                        -- 'pending': a person is asked
    tool_id uuid,                               -- NULL: a question of the agent. A deleted tool withdraws the call
    tool text NOT NULL,                         -- the name by which it was called
    tool_digest bytea NOT NULL,                 -- of what a person sees of the tool, when the call was made
    arguments text NOT NULL,                    -- JSON, as it was given
    approved_arguments text,                    -- JSON, as a person has edited it
    digest bytea NOT NULL,                      -- of tool and arguments
    question text NOT NULL,                     -- '' if it is an approval
    answer_schema json,
    answer text,                                -- JSON
    contact_id uuid,                            -- whom the agent asks
    remote json,                                -- what the server of an MCP tool needs in order to go on
    created_at timestamptz NOT NULL,
    expires_at timestamptz,                     -- NULL: never
    due_at timestamptz,                         -- when the service must look at it; NULL: it waits for no time
    reminded_at timestamptz,
    decided_at timestamptz,
    decided_by text NOT NULL,                   -- as the actor of an event
    decision_digest bytea,                      -- of what was decided, so that the same decision is known again
    result_digest bytea,                        -- of the result that an asynchronous tool has sent, likewise
    note text NOT NULL,
    ended_at timestamptz,
    outcome text NOT NULL                       -- a sentence that says what ended it
) WITH (fillfactor = 80);
-- The same call is not asked twice. Questions of servers are, each of which goes on with an answer of its own.
CREATE UNIQUE INDEX parked_call_once ON parked_call (agent_id, digest) WHERE state = 'pending' AND kind <> 'input';
CREATE INDEX parked_call_due ON parked_call (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX parked_call_of_organization ON parked_call (organization_id, created_at DESC, id DESC);
CREATE INDEX parked_call_pending ON parked_call (organization_id, created_at DESC, id DESC) WHERE state = 'pending';
CREATE INDEX parked_call_of_agent ON parked_call (agent_id, ended_at);
CREATE INDEX parked_call_of_tool ON parked_call (tool_id) WHERE ended_at IS NULL;
CREATE INDEX parked_call_ended ON parked_call (ended_at) WHERE ended_at IS NOT NULL;

-- Calls that need no further decision.
CREATE TABLE approval_grant (
    id uuid PRIMARY KEY,
    organization_id uuid NOT NULL REFERENCES organization (id) ON DELETE CASCADE,
    agent_id uuid NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
    tool_id uuid NOT NULL REFERENCES tool (id) ON DELETE CASCADE,
    tool_digest bytea NOT NULL,                 -- of a tool that has changed since, it covers nothing
    call_id uuid NOT NULL,                      -- with whose decision it was given
    digest bytea,                               -- of tool and arguments; NULL: the schema says which
    arguments_schema json,                      -- NULL without a digest: any arguments
    until timestamptz,
    max_uses integer,
    used_count integer NOT NULL,
    last_used_at timestamptz,
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    revoked_at timestamptz,
    revoked_by text NOT NULL
);
CREATE INDEX approval_grant_of_agent ON approval_grant (agent_id, tool_id);
CREATE INDEX approval_grant_of_tool ON approval_grant (tool_id);
CREATE INDEX approval_grant_of_organization ON approval_grant (organization_id, created_at DESC, id DESC);

-- Which calls need a decision: "never", "always", "first_use", or {"when": a JSON Schema of the arguments}.
ALTER TABLE tool ADD COLUMN approval json NOT NULL DEFAULT '"never"';
ALTER TABLE adapter_config ADD COLUMN approval json;        -- NULL: the tools say
ALTER TABLE template ADD COLUMN approvers text NOT NULL DEFAULT 'admin';
ALTER TABLE template ADD COLUMN approval_hours integer DEFAULT 168;  -- until a wait for a person expires; NULL: never

-- What a person sees of a tool before allowing a call.
CREATE FUNCTION tool_digest(t tool) RETURNS bytea LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT sha256(convert_to(
        json_build_array(t.name, t.description, t.parameters, t.url, t.handler)::text, 'UTF8'))
$$;

-- What makes a call pointless has the service look at it, whoever writes it.
CREATE FUNCTION look_at_parked_calls() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    of_agent uuid;
    of_tool uuid;
BEGIN
    CASE TG_TABLE_NAME
        WHEN 'tool' THEN of_tool := OLD.id;
        WHEN 'agent' THEN of_agent := OLD.id;
        ELSE of_agent := OLD.agent_id;
    END CASE;
    UPDATE parked_call SET due_at = to_timestamp(0) WHERE id IN (
        SELECT id FROM parked_call
        WHERE (agent_id = of_agent OR tool_id = of_tool) AND ended_at IS NULL AND state IN ('pending', 'due')
        ORDER BY id FOR NO KEY UPDATE);
    RETURN NULL;
END
$$;
CREATE TRIGGER parked_calls AFTER UPDATE OF deleted_at ON agent FOR EACH ROW
WHEN (OLD.deleted_at IS NULL AND NEW.deleted_at IS NOT NULL) EXECUTE FUNCTION look_at_parked_calls();
CREATE TRIGGER parked_calls AFTER UPDATE OF status ON agent_state FOR EACH ROW
WHEN (OLD.status <> 'archived' AND NEW.status = 'archived') EXECUTE FUNCTION look_at_parked_calls();
CREATE TRIGGER parked_calls AFTER UPDATE OR DELETE ON tool FOR EACH ROW
EXECUTE FUNCTION look_at_parked_calls();
CREATE TRIGGER parked_calls AFTER DELETE ON agent_adapter FOR EACH ROW
EXECUTE FUNCTION look_at_parked_calls();
