-- A cap of 0 is reached without spending. The budget renewal looks for the agents that have one every few seconds.
CREATE INDEX agent_with_cap_of_zero ON agent (id) WHERE max_cost_usd_per_day = 0 AND deleted_at IS NULL;
CREATE INDEX template_with_cap_of_zero ON template (id) WHERE max_cost_usd_per_day = 0;
