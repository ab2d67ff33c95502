-- Rings that name many agents at once, looks after what other programs clear or put off, and what retention needs.

-- A ring names up to 200 agents, as a payload takes 8000 bytes. Beyond 5000 agents in one statement it names
-- none, which tells the service to look at everything, a page at a time.
CREATE OR REPLACE FUNCTION agent_ring(agents uuid[], moments timestamptz[]) RETURNS void LANGUAGE plpgsql AS $$
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

-- One that no longer waits, or waits for longer, may have been all that an agent was held for: the agent is
-- due for a look, by whoever comes to it first.
CREATE OR REPLACE FUNCTION notification_ring_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM agent_ring(array_agg(agent_id), array_agg(due_at))
        FROM (SELECT t.agent_id,
                     min(CASE WHEN t.activated_at <= b.activated_at OR b.activated_at IS NULL THEN t.activated_at
                              ELSE clock_timestamp() END) AS due_at
              FROM touched t JOIN before b USING (id)
              WHERE t.activated_at IS NOT NULL OR b.activated_at IS NOT NULL GROUP BY t.agent_id) t;
    RETURN NULL;
END $$;

-- When nothing was left any more of what a deleted agent had: only the row itself and its traces and usage.
ALTER TABLE agent ADD COLUMN emptied_at timestamptz;
CREATE INDEX agent_to_empty ON agent (deleted_at) WHERE deleted_at IS NOT NULL AND emptied_at IS NULL;

CREATE INDEX notification_cleared ON notification (cleared_at) WHERE cleared;
