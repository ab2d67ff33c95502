-- Several nodes on one database, and which of them attends an agent.

-- A node is one life of one process. Whoever terminates the connections of a node sets it to condemned before, and to
-- dead after the last one is gone.
CREATE TABLE node (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,    -- the second key of its advisory locks
    life uuid NOT NULL,                                     -- a server that is promoted may give a number again
    name text NOT NULL,
    version text NOT NULL,
    protocol integer NOT NULL,                              -- of the signals between nodes
    roles text[] NOT NULL,                                  -- http, runs, chores
    process text NOT NULL DEFAULT '',                       -- boot id/PID namespace/PID/start time; '' if not known
    state text NOT NULL DEFAULT 'alive' CHECK (state IN ('alive', 'leaving', 'condemned', 'dead')),
    beat bigint NOT NULL DEFAULT 0,                         -- only counted, never compared with a clock
    facts json NOT NULL DEFAULT '{}',                       -- what the node tells the others with each beat
    joined_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz
) WITH (fillfactor = 50);

-- For the nodes that live: the dead ones are kept and counted.
CREATE INDEX node_living ON node (id) WHERE state <> 'dead';

ALTER TABLE agent_state
    ADD COLUMN node_id integer,                             -- who attends the agent while it is awake
    ADD COLUMN lingers boolean NOT NULL DEFAULT false;      -- the last run has ended here, but not yet in its process
ALTER TABLE run ADD COLUMN node_id integer;                 -- who carries it out, or did

CREATE INDEX agent_state_attended ON agent_state (node_id) WHERE node_id IS NOT NULL;
CREATE INDEX agent_state_queued_of_organization ON agent_state (organization_id, queued_at, agent_id)
    WHERE queued_at IS NOT NULL;
