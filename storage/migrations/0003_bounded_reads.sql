-- Counts that are kept, so that nothing long has to be read to be counted or limited.

-- How many spans each trace has; written by the statements that insert spans. Not a column of trace, whose rows
-- are also locked by the ends of runs and by other programs.
CREATE TABLE trace_size (
    trace_id uuid PRIMARY KEY,
    span_count bigint NOT NULL
) WITH (fillfactor = 60);
INSERT INTO trace_size (trace_id, span_count) SELECT trace_id, count(*) FROM span GROUP BY trace_id;

-- Whether a trace has a failed span, without reading all of its spans.
CREATE INDEX span_failed ON span (trace_id) WHERE error <> '';

-- The first 1000 notifications that were active when a run started stay in run.notifications. This is the number
-- of the others.
ALTER TABLE run ADD COLUMN notifications_left_out integer NOT NULL DEFAULT 0;
UPDATE run SET notifications_left_out = cardinality(notifications) - 1000, notifications = notifications[1:1000]
WHERE cardinality(notifications) > 1000;
