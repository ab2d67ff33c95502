-- Other programs may write notifications, messages, agents and the pauses of organizations, too. The triggers
-- below record it in the event log, with the actor 'program'. They are silent for the service's own connections
-- (hostsvc.origin), which write their events themselves, and act with the rights of the tables' owner, so that a
-- program needs no rights on the log.

-- The events of a transaction in progress. They move into the log when it commits: an id of the log that was taken
-- earlier would hold up all readers until then. A row holds up to 10,000 events of one statement.
CREATE TABLE event_of_program (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    types text[] NOT NULL,
    organization_ids uuid[] NOT NULL,
    agent_ids uuid[] NOT NULL,
    resource_ids uuid[] NOT NULL,
    data text[] NOT NULL
);

CREATE FUNCTION event_of_program_move() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event (at, type, organization_id, agent_id, resource_id, actor, data)
        SELECT clock_timestamp(), type, organization_id, agent_id, resource_id, 'program', data::json
        FROM unnest(NEW.types, NEW.organization_ids, NEW.agent_ids, NEW.resource_ids, NEW.data)
            WITH ORDINALITY AS e (type, organization_id, agent_id, resource_id, data, ordinal)
        ORDER BY ordinal;
    DELETE FROM event_of_program WHERE id = NEW.id;
    PERFORM pg_notify('hostsvc_doorbell', 'events');
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER event_of_program_move AFTER INSERT ON event_of_program
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION event_of_program_move();

CREATE FUNCTION notification_created_data(source text, priority text, scheduled_for timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT json_strip_nulls(json_build_object('source', source, 'priority', priority, 'scheduled_for',
        to_char(scheduled_for AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))::text
$$;

CREATE FUNCTION notification_record_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_of_program (types, organization_ids, agent_ids, resource_ids, data)
        SELECT array_agg('notification.created'::text), array_agg(organization_id), array_agg(agent_id), array_agg(id),
               array_agg(notification_created_data(source, priority, scheduled_for))
        FROM (SELECT *, (row_number() OVER () - 1) / 10000 AS part FROM touched) t
        GROUP BY part ORDER BY part;
    RETURN NULL;
END $$;

-- A notification that goes to another agent is deleted for the one and created for the other.
CREATE FUNCTION notification_record_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_of_program (types, organization_ids, agent_ids, resource_ids, data)
        SELECT array_agg(type ORDER BY place), array_agg(organization_id ORDER BY place),
               array_agg(agent_id ORDER BY place), array_agg(id ORDER BY place), array_agg(data ORDER BY place)
        FROM (
            SELECT t.id, e.*, row_number() OVER () AS place, (row_number() OVER () - 1) / 10000 AS part
            FROM touched t JOIN before b USING (id)
            CROSS JOIN LATERAL (SELECT array_remove(ARRAY[
                CASE WHEN t.title <> b.title THEN 'title' END,
                CASE WHEN t.body <> b.body THEN 'body' END,
                CASE WHEN t.priority <> b.priority THEN 'priority' END,
                CASE WHEN t.scheduled_for IS DISTINCT FROM b.scheduled_for THEN 'scheduled_for' END,
                CASE WHEN t.source <> b.source THEN 'source' END,
                CASE WHEN t.source_id <> b.source_id THEN 'source_id' END,
                CASE WHEN b.cleared AND NOT t.cleared THEN 'cleared' END], NULL) AS names) AS fields
            CROSS JOIN LATERAL (
                SELECT 'notification.deleted', b.organization_id, b.agent_id, '{}'
                WHERE t.agent_id <> b.agent_id
                UNION ALL
                SELECT 'notification.created', t.organization_id, t.agent_id,
                       notification_created_data(t.source, t.priority, t.scheduled_for)
                WHERE t.agent_id <> b.agent_id
                UNION ALL
                SELECT 'notification.changed', t.organization_id, t.agent_id,
                       (jsonb_build_object('fields', fields.names)
                        || CASE WHEN t.priority <> b.priority
                                THEN jsonb_build_object('priority', t.priority) ELSE '{}' END
                        || CASE WHEN t.scheduled_for IS DISTINCT FROM b.scheduled_for
                                THEN jsonb_build_object('scheduled_for', to_char(
                                    t.scheduled_for AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
                                ELSE '{}' END)::text
                WHERE t.agent_id = b.agent_id AND fields.names <> '{}'
                UNION ALL
                SELECT 'notification.cleared', t.organization_id, t.agent_id, '{}'
                WHERE t.agent_id = b.agent_id AND t.cleared AND NOT b.cleared
            ) AS e (type, organization_id, agent_id, data)
        ) AS c
        GROUP BY part ORDER BY part;
    RETURN NULL;
END $$;

-- The queue of a deleted agent goes without events.
CREATE FUNCTION notification_record_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_of_program (types, organization_ids, agent_ids, resource_ids, data)
        SELECT array_agg('notification.deleted'::text), array_agg(organization_id), array_agg(agent_id), array_agg(id),
               array_agg('{}'::text)
        FROM (SELECT t.*, (row_number() OVER () - 1) / 10000 AS part
              FROM touched t JOIN agent a ON a.id = t.agent_id AND a.deleted_at IS NULL) t
        GROUP BY part ORDER BY part;
    RETURN NULL;
END $$;

CREATE FUNCTION message_record_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_of_program (types, organization_ids, agent_ids, resource_ids, data)
        SELECT array_agg(CASE direction WHEN 'inbound' THEN 'message.received' ELSE 'message.' || status END),
               array_agg(organization_id), array_agg(agent_id), array_agg(id),
               array_agg(json_strip_nulls(json_build_object('contact', contact_id, 'channel', channel))::text)
        FROM (SELECT *, (row_number() OVER () - 1) / 10000 AS part FROM touched
              WHERE direction = 'inbound' OR status IN ('sent', 'failed')) t
        GROUP BY part ORDER BY part;
    RETURN NULL;
END $$;

CREATE FUNCTION message_record_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_of_program (types, organization_ids, agent_ids, resource_ids, data)
        SELECT array_agg('message.' || status), array_agg(organization_id), array_agg(agent_id), array_agg(id),
               array_agg(json_strip_nulls(json_build_object('contact', contact_id, 'channel', channel))::text)
        FROM (SELECT t.*, (row_number() OVER () - 1) / 10000 AS part FROM touched t JOIN before b USING (id)
              WHERE t.direction = 'outbound' AND t.status IN ('sent', 'failed') AND t.status <> b.status) t
        GROUP BY part ORDER BY part;
    RETURN NULL;
END $$;

CREATE FUNCTION agent_record_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_of_program (types, organization_ids, agent_ids, resource_ids, data)
        SELECT array_agg('agent.created'::text), array_agg(organization_id), array_agg(id), array_agg(NULL::uuid),
               array_agg('{}'::text)
        FROM (SELECT *, (row_number() OVER () - 1) / 10000 AS part FROM touched WHERE deleted_at IS NULL) t
        GROUP BY part ORDER BY part;
    RETURN NULL;
END $$;

-- The fields have the names of the API, where those of other resources lack the '_id'.
CREATE FUNCTION agent_record_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_of_program (types, organization_ids, agent_ids, resource_ids, data)
        SELECT array_agg(CASE WHEN is_deleted THEN 'agent.deleted' ELSE 'agent.changed' END),
               array_agg(organization_id), array_agg(id), array_agg(NULL::uuid),
               array_agg(CASE WHEN is_deleted THEN '{}' ELSE json_build_object('fields', names)::text END)
        FROM (
            SELECT t.id, t.organization_id, t.deleted_at IS NOT NULL AS is_deleted, fields.names,
                   (row_number() OVER () - 1) / 10000 AS part
            FROM touched t JOIN before b USING (id)
            CROSS JOIN LATERAL (
                SELECT array_agg(f.name ORDER BY f.name) AS names FROM (
                    SELECT CASE WHEN n.key IN ('template_id', 'parent_id', 'organization_id')
                                THEN left(n.key, -3) ELSE n.key END AS name
                    FROM jsonb_each(to_jsonb(t)) AS n JOIN jsonb_each(to_jsonb(b)) AS o USING (key)
                    WHERE n.value <> o.value AND n.key NOT IN ('deleted_at', 'emptied_at')
                ) AS f
            ) AS fields
            WHERE b.deleted_at IS NULL AND (t.deleted_at IS NOT NULL OR fields.names IS NOT NULL)
        ) AS c
        GROUP BY part ORDER BY part;
    RETURN NULL;
END $$;

CREATE FUNCTION agent_record_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_of_program (types, organization_ids, agent_ids, resource_ids, data)
        SELECT array_agg('agent.deleted'::text), array_agg(organization_id), array_agg(id), array_agg(NULL::uuid),
               array_agg('{}'::text)
        FROM (SELECT *, (row_number() OVER () - 1) / 10000 AS part FROM touched WHERE deleted_at IS NULL) t
        GROUP BY part ORDER BY part;
    RETURN NULL;
END $$;

CREATE FUNCTION organization_record_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO event_of_program (types, organization_ids, agent_ids, resource_ids, data)
        SELECT array_agg(CASE WHEN paused THEN 'organization.paused' ELSE 'organization.unpaused' END),
               array_agg(id), array_agg(NULL::uuid), array_agg(NULL::uuid), array_agg('{}'::text)
        FROM (SELECT t.*, (row_number() OVER () - 1) / 10000 AS part FROM touched t JOIN before b USING (id)
              WHERE t.paused <> b.paused) t
        GROUP BY part ORDER BY part;
    RETURN NULL;
END $$;

-- A TRUNCATE names no rows, so it cannot be recorded.
CREATE FUNCTION refuse_truncate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE feature_not_supported USING
        MESSAGE = format('TRUNCATE of the table %s would leave no events in the log', TG_TABLE_NAME),
        HINT = 'Use DELETE.';
END $$;

CREATE TRIGGER notification_record_insert AFTER INSERT ON notification
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION notification_record_insert();
CREATE TRIGGER notification_record_update AFTER UPDATE ON notification
    REFERENCING OLD TABLE AS before NEW TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION notification_record_update();
CREATE TRIGGER notification_record_delete AFTER DELETE ON notification
    REFERENCING OLD TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION notification_record_delete();
CREATE TRIGGER message_record_insert AFTER INSERT ON message
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION message_record_insert();
CREATE TRIGGER message_record_update AFTER UPDATE ON message
    REFERENCING OLD TABLE AS before NEW TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION message_record_update();
CREATE TRIGGER agent_record_insert AFTER INSERT ON agent
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION agent_record_insert();
CREATE TRIGGER agent_record_update AFTER UPDATE ON agent
    REFERENCING OLD TABLE AS before NEW TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION agent_record_update();
CREATE TRIGGER agent_record_delete AFTER DELETE ON agent
    REFERENCING OLD TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION agent_record_delete();
CREATE TRIGGER organization_record_update AFTER UPDATE ON organization
    REFERENCING OLD TABLE AS before NEW TABLE AS touched FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION organization_record_update();
CREATE TRIGGER notification_refuse_truncate BEFORE TRUNCATE ON notification FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION refuse_truncate();
CREATE TRIGGER message_refuse_truncate BEFORE TRUNCATE ON message FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION refuse_truncate();
CREATE TRIGGER agent_refuse_truncate BEFORE TRUNCATE ON agent FOR EACH STATEMENT
    WHEN (current_setting('hostsvc.origin', true) IS DISTINCT FROM 'service')
    EXECUTE FUNCTION refuse_truncate();
