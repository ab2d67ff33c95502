-- Two facts about what an agent went through: the order of its activations, and why it was stopped.

-- Each activation is stored later than the agent's earlier ones and than its last start, end and stop, even if the
-- wall clock was set back in between: their order decides whether a notification is new.
ALTER TABLE agent_state
    ADD COLUMN last_activated_at timestamptz,           -- latest activated_at ever, reminders left out
    ADD COLUMN stop_reason text NOT NULL DEFAULT '';    -- of the stop at stopped_at, as the client gave it

ALTER TABLE run
    ADD COLUMN stop_reason text NOT NULL DEFAULT '';    -- of the stop that ended the run
