-- What the overview of an organization reads, however many agents it and the others have.

-- The organization of the agent, so that an index leads to the states of its agents.
ALTER TABLE agent_state ADD COLUMN organization_id uuid;
UPDATE agent_state s SET organization_id = a.organization_id FROM agent a WHERE a.id = s.agent_id;

-- For other programs that create agents. Afterwards, because one statement may insert the agent and its state.
CREATE FUNCTION agent_state_complete() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE agent_state s SET organization_id = a.organization_id FROM agent a
    WHERE s.agent_id = NEW.agent_id AND a.id = NEW.agent_id;
    RETURN NULL;
END $$;
CREATE TRIGGER agent_state_complete AFTER INSERT ON agent_state
    FOR EACH ROW WHEN (NEW.organization_id IS NULL) EXECUTE FUNCTION agent_state_complete();

-- Most agents are asleep: only the others are in this index.
CREATE INDEX agent_state_phase ON agent_state (organization_id, phase, phase_since, agent_id) WHERE phase <> 'asleep';
CREATE INDEX agent_state_due_of_organization ON agent_state (organization_id, next_due_at, agent_id)
    WHERE next_due_at IS NOT NULL;
-- Stopped agents may sleep although notifications are active.
CREATE INDEX agent_state_stopped ON agent_state (organization_id) WHERE stopped_at IS NOT NULL AND phase = 'asleep';

-- With deleted_at, agents are counted without reading their rows.
DROP INDEX agent_of_organization;
CREATE INDEX agent_of_organization ON agent (organization_id, created_at DESC, id DESC) INCLUDE (deleted_at);
