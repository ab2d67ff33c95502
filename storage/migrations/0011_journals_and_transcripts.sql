-- Journals of runs, and transcripts that agents carry from run to run.

CREATE INDEX message_of_run ON message (run_id, created_at, id) WHERE run_id IS NOT NULL;
