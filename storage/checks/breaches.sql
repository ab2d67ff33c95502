-- The invariants of docs/invariants.md, as far as rows at rest show a breach: each query lists the ids that break one.

-- I1: an active run that is not its agent's only one
SELECT r.id FROM run r LEFT JOIN agent_state s ON s.agent_id = r.agent_id
WHERE r.outcome IS NULL AND s.run_id IS DISTINCT FROM r.id
UNION ALL
SELECT s.agent_id FROM agent_state s LEFT JOIN run r ON r.id = s.run_id AND r.outcome IS NULL
WHERE s.run_id IS NOT NULL AND r.id IS NULL;

-- I2: an agent without a state, which nothing can wake
SELECT a.id FROM agent a LEFT JOIN agent_state s ON s.agent_id = a.id
WHERE a.deleted_at IS NULL AND s.agent_id IS NULL;

-- I6: a reminder ahead of a sleeping agent that has no due time
SELECT n.id FROM notification n
JOIN agent_state s ON s.agent_id = n.agent_id AND s.status = 'sleeping' AND NOT s.paused
JOIN organization o ON o.id = n.organization_id AND NOT o.paused
WHERE n.scheduled_for = n.activated_at AND n.activated_at > (SELECT paused_at FROM instance)
  AND s.next_due_at IS NULL AND s.queued_at IS NULL;

-- I7: a row of one organization at an agent of another
SELECT x.id FROM (
    SELECT id, agent_id, organization_id FROM notification
    UNION ALL SELECT id, agent_id, organization_id FROM run
    UNION ALL SELECT id, agent_id, organization_id FROM message
    UNION ALL SELECT id, agent_id, organization_id FROM schedule
    UNION ALL SELECT id, agent_id, organization_id FROM parked_call
    UNION ALL SELECT agent_id, agent_id, organization_id FROM agent_state
) x JOIN agent a ON a.id = x.agent_id WHERE x.organization_id <> a.organization_id;

-- I8: an event whose id would be given again
SELECT id FROM event WHERE id > (SELECT last_value FROM pg_sequences WHERE sequencename = 'event_id_seq');

-- I10: a call to make that nothing looks at
SELECT id FROM parked_call WHERE state IN ('due', 'calling') AND due_at IS NULL;

-- I10: a grant that let through more than it says
SELECT id FROM approval_grant WHERE used_count > max_uses;
