-- A move whose answer was lost may still be made later: it must not count once the row has been moved again.

ALTER TABLE agent_state ADD COLUMN version bigint NOT NULL DEFAULT 0;   -- bumped by each move
