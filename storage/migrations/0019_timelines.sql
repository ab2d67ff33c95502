-- The marks of an agent's timeline: everything but the ends of runs, and phases that rules and runs led to.
CREATE INDEX event_of_agent_mark ON event (agent_id, at, id)
    WHERE agent_id IS NOT NULL AND (phase IS NULL OR actor <> '' AND actor NOT LIKE 'run:%') AND type <> 'run.ended';
-- The pauses of an organization, which the timelines of all its agents show.
CREATE INDEX event_of_pause ON event (organization_id, at, id)
    WHERE type IN ('organization.paused', 'organization.unpaused');
