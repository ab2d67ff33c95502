-- Whether something was cleared between two runs shows in how much less there is of what the first one left.

ALTER TABLE agent_state ADD COLUMN left_over integer NOT NULL DEFAULT 0;  -- active ones the last run left
