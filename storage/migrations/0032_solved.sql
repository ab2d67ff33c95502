-- A run that left contacts without an answer is solved once each of them got a message.

CREATE INDEX run_in_need_of_agent ON run (agent_id) WHERE needs_person;

-- For lists by status: of all others there are many.
CREATE INDEX message_unsent ON message (organization_id, status, created_at DESC, id DESC)
    WHERE status IN ('failed', 'queued');

CREATE OR REPLACE FUNCTION message_solve() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.status = 'failed' AND NOT (SELECT needs_person FROM message WHERE id = NEW.id) THEN
        RETURN NULL;  -- another one of the statement stands for it
    END IF;
    UPDATE message SET needs_person = false WHERE id IN (
        SELECT id FROM message
        WHERE organization_id = NEW.organization_id AND needs_person
          AND agent_id = NEW.agent_id AND contact_id = NEW.contact_id AND id <> NEW.id
          AND (body = NEW.body OR NEW.status = 'sent' AND run_id = NEW.run_id)
        FOR NO KEY UPDATE SKIP LOCKED);
    IF NEW.status = 'sent' THEN
        -- Of two messages that are sent at once, neither transaction sees the other's: the second one waits and looks.
        PERFORM pg_advisory_xact_lock(hashtext('message_solve'), hashtext(NEW.agent_id::text)) FROM run
        WHERE agent_id = NEW.agent_id AND needs_person LIMIT 1;
        UPDATE run SET needs_person = false WHERE id IN (
            SELECT r.id FROM run r
            WHERE r.agent_id = NEW.agent_id AND r.needs_person AND r.journal -> 'unanswered' ->> 0 IS NOT NULL
              AND NOT EXISTS (SELECT FROM json_array_elements(r.journal -> 'tools') AS t (tool)
                              WHERE (t.tool ->> 'unsolved')::boolean)
              AND NOT EXISTS (
                  SELECT FROM json_array_elements_text(r.journal -> 'unanswered') AS u (contact)
                  JOIN contact c ON c.id = u.contact::uuid
                  WHERE NOT EXISTS (
                      SELECT FROM message m
                      WHERE m.contact_id = c.id AND m.agent_id = r.agent_id AND m.created_at >= r.ended_at
                        AND m.direction = 'outbound' AND m.status = 'sent'))
            FOR NO KEY UPDATE SKIP LOCKED);
    END IF;
    RETURN NULL;
END $$;
