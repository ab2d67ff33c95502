-- What failed and needs a person, until it is solved or a person dismisses it.

ALTER TABLE message
    ADD COLUMN error text NOT NULL DEFAULT '',             -- why it was not sent
    ADD COLUMN needs_person boolean NOT NULL DEFAULT false;
UPDATE message SET needs_person = true
WHERE direction = 'outbound' AND status = 'failed' AND created_at > now() - interval '7 days';
CREATE INDEX message_in_need ON message (organization_id, created_at, id) WHERE needs_person;

-- Whoever sets the status: a message that failed needs a person, also while it is queued again, until it is sent.
CREATE FUNCTION message_judge() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.status = NEW.status THEN
        RETURN NEW;
    END IF;
    NEW.needs_person := NEW.status = 'failed' OR NEW.status = 'queued' AND NEW.needs_person;
    IF NEW.status <> 'failed' THEN
        NEW.error := '';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER message_judge BEFORE INSERT OR UPDATE OF status ON message
    FOR EACH ROW WHEN (NEW.direction = 'outbound') EXECUTE FUNCTION message_judge();

-- A message that failed stands for those with the same text to the same contact that failed before, so that sending
-- again what failed sends the text once. One that is sent solves these and those of the same run to the same contact.
-- This comes after the statement, which may set the status of several of them, and waits for none: a message that is
-- locked is being judged itself.
CREATE FUNCTION message_solve() RETURNS trigger
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
    RETURN NULL;
END $$;
CREATE TRIGGER message_solve AFTER INSERT OR UPDATE OF status ON message FOR EACH ROW
    WHEN (NEW.direction = 'outbound' AND NEW.status IN ('sent', 'failed') AND NEW.contact_id IS NOT NULL)
    EXECUTE FUNCTION message_solve();

ALTER TABLE run
    ADD COLUMN failed_calls integer NOT NULL DEFAULT 0,    -- calls of tools that failed
    ADD COLUMN needs_person boolean NOT NULL DEFAULT false;
CREATE INDEX run_with_failed_calls ON run (organization_id, started_at DESC, id DESC) WHERE failed_calls > 0;
CREATE INDEX run_in_need ON run (organization_id, started_at DESC, id DESC) WHERE needs_person;

-- Of the webhooks of templates. Event webhooks are judged as a whole.
ALTER TABLE webhook_delivery ADD COLUMN dismissed boolean NOT NULL DEFAULT false;
CREATE INDEX webhook_delivery_in_need ON webhook_delivery (organization_id, created_at, id)
    WHERE webhook_id IS NULL AND delivered_at IS NULL AND attempts > 0 AND NOT dismissed;
