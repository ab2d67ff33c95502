-- The budget renewal looks for these agents every few seconds, among all agents.
CREATE INDEX agent_state_over_budget ON agent_state (agent_id) WHERE phase = 'over_budget';
