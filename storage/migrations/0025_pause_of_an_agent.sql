-- The pause of one agent: while it is true, its runs are stopped and nothing starts it.
ALTER TABLE agent_state ADD COLUMN paused boolean NOT NULL DEFAULT false;
