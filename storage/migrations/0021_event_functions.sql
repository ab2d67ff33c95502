-- Functions of the statements that write events. The planner inlines them.

-- The run that made a change, if a run did: its id is in the actor, 'run:<id>'.
CREATE FUNCTION event_run_id(actor text) RETURNS uuid
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN actor LIKE 'run:%' THEN substr(actor, 5)::uuid END;

-- Only a function that says STABLE, as those for JSON do, is inlined.
CREATE OR REPLACE FUNCTION notification_created_data(source text, priority text, scheduled_for timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN scheduled_for IS NULL
                THEN json_build_object('source', source, 'priority', priority)
                ELSE json_build_object('source', source, 'priority', priority, 'scheduled_for',
                    to_char(scheduled_for AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) END::text
$$;
