-- What follows when the pause of a restored instance ends: each query lists names.

-- agents that have something due
SELECT a.name FROM agent a
JOIN agent_state s ON s.agent_id = a.id AND s.status <> 'archived' AND NOT s.paused
JOIN organization o ON o.id = a.organization_id AND NOT o.paused
CROSS JOIN instance i
WHERE a.deleted_at IS NULL
  AND (s.run_id IS NOT NULL OR s.queued_at IS NOT NULL OR s.next_due_at <= i.paused_at OR EXISTS (
      SELECT FROM notification n WHERE n.agent_id = a.id AND n.activated_at <= i.paused_at
        AND (s.stopped_at IS NULL OR n.activated_at > greatest(s.stopped_at, s.seen_until))))
ORDER BY a.name, a.id;

-- runs that were under way, whose agents start again
SELECT a.name FROM run r JOIN agent a ON a.id = r.agent_id WHERE r.outcome IS NULL ORDER BY a.name, a.id;

-- schedules that missed something, each by its own rule
SELECT name FROM schedule WHERE due_at <= (SELECT paused_at FROM instance) ORDER BY due_at, id;

-- webhooks to send, with the ids that they had
SELECT url FROM webhook_delivery WHERE next_attempt_at <= (SELECT paused_at FROM instance) ORDER BY next_attempt_at, id;

-- parked calls to look at
SELECT tool FROM parked_call WHERE due_at <= (SELECT paused_at FROM instance) ORDER BY due_at, id;
