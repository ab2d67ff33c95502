-- rolling
-- What nodes have counted for /metrics, and which runs they interrupted.

-- Numbers by series, in whole millionths. They stay when the node ends, so that sums over all nodes never fall.
ALTER TABLE node ADD COLUMN counters json NOT NULL DEFAULT '{}';

CREATE INDEX run_interrupted ON run (node_id) WHERE outcome = 'interrupted';
