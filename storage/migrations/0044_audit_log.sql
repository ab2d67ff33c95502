-- The audit log: who did what to which resource, when and from where. Its entries are written to the event log, in the
-- transaction of their effect. A moment later they are copied from there, in order, into a chain of digests.

-- The address of the client. The service sets it within a transaction, together with who asks (hostsvc.actor).
ALTER TABLE event ADD COLUMN address text NOT NULL DEFAULT coalesce(current_setting('hostsvc.address', true), '');

-- The last event that the chain has seen.
ALTER TABLE instance ADD COLUMN chained_event_id bigint NOT NULL DEFAULT 0;
UPDATE instance SET chained_event_id = coalesce((SELECT max(id) FROM event), 0);

-- The events of the type 'audit' are shown by the audit log alone; the others belong to the event log, too.
CREATE FUNCTION is_audited(type text) RETURNS boolean LANGUAGE sql IMMUTABLE
RETURN type IN ('audit', 'agent.created', 'agent.changed', 'agent.deleted', 'agent.paused', 'agent.unpaused',
                'agent.stopping', 'agent.stopped', 'agent.archived', 'agent.restored', 'approval.decided',
                'organization.paused', 'organization.unpaused',
                'schedule.created', 'schedule.changed', 'schedule.deleted');

-- The chain of each organization. Each digest covers the entry with the digest before it.
CREATE TABLE audit_entry (
    id uuid NOT NULL,
    organization_id uuid NOT NULL,               -- all zeros: of the whole instance, by its operator
    number bigint NOT NULL,                      -- 1, 2, … in the organization
    created_at timestamptz NOT NULL,             -- when it happened
    actor text NOT NULL,                         -- as in event
    address text NOT NULL,                       -- '': not a request
    resource text NOT NULL,                      -- such as template
    action text NOT NULL,                        -- such as created
    resource_id uuid,                            -- no foreign keys: entries outlive what they are about
    agent_id uuid,
    data json NOT NULL,
    previous bytea NOT NULL,                     -- the digest before; 32 zeros for the first entry
    digest bytea NOT NULL,                       -- SHA-256, see storage/events/audit_chain.py
    PRIMARY KEY (organization_id, number)
);
CREATE INDEX audit_entry_by_id ON audit_entry (id);
CREATE INDEX audit_entry_of_organization ON audit_entry (organization_id, created_at DESC, id DESC);

CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE insufficient_privilege USING MESSAGE = format('%s of the table %s is refused', TG_OP, TG_TABLE_NAME),
        HINT = 'The audit log only grows; retention.audit removes its oldest entries.';
END $$;
CREATE TRIGGER audit_entry_refuse_change BEFORE UPDATE OR TRUNCATE ON audit_entry
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
CREATE TRIGGER event_refuse_change BEFORE UPDATE OR TRUNCATE ON event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();

-- Entries go as retention lets them go: from the beginning of a chain, after a day at least, and never the last one.
CREATE FUNCTION audit_entry_keep_chain() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (
        SELECT FROM gone g WHERE created_at > now() - interval '1 day'
        OR EXISTS (SELECT FROM audit_entry WHERE organization_id = g.organization_id AND number < g.number)
        OR NOT EXISTS (SELECT FROM audit_entry WHERE organization_id = g.organization_id AND number > g.number)
    ) THEN
        RAISE insufficient_privilege USING MESSAGE = 'only the oldest entries of the audit log can be removed';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER audit_entry_keep_chain AFTER DELETE ON audit_entry REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_keep_chain();

-- An audited event stays until the chain has it.
CREATE FUNCTION event_keep_unchained() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM gone WHERE id > (SELECT chained_event_id FROM instance) AND is_audited(type)) THEN
        RAISE insufficient_privilege USING MESSAGE = 'an event of the audit log was not copied yet';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER event_keep_unchained AFTER DELETE ON event REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION event_keep_unchained();

-- As in 0020, but a change by the service has the actor that the service has set. A role of another program cannot
-- claim to be the service.
CREATE OR REPLACE FUNCTION event_of_program_move() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    is_service boolean := current_setting('hostsvc.origin', true) IS NOT DISTINCT FROM 'service'
                          AND pg_has_role(session_user, current_user, 'USAGE');  -- the owner, by SECURITY DEFINER
BEGIN
    INSERT INTO event (at, type, organization_id, agent_id, resource_id, actor, data)
        SELECT clock_timestamp(), type, organization_id, agent_id, resource_id,
               CASE WHEN is_service THEN coalesce(current_setting('hostsvc.actor', true), '') ELSE 'program' END,
               data::json
        FROM unnest(NEW.types, NEW.organization_ids, NEW.agent_ids, NEW.resource_ids, NEW.data)
            WITH ORDINALITY AS e (type, organization_id, agent_id, resource_id, data, ordinal)
        ORDER BY ordinal;
    DELETE FROM event_of_program WHERE id = NEW.id;
    PERFORM pg_notify('hostsvc_doorbell', 'events') WHERE NOT is_service;
    RETURN NULL;
END $$;

-- Record a row of an audited table: the names of its changed columns and what it is called, never other values, and how
-- many rows of which tables are deleted with it. The first argument of the trigger names the resource; changes of the
-- columns in the others are not recorded.
CREATE FUNCTION audit_row() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    before jsonb := to_jsonb(OLD);
    shown jsonb := coalesce(to_jsonb(NEW), before);
    changed text[];
    entry jsonb;
    child record;
    gone jsonb := '{}';
BEGIN
    FOR child IN SELECT conrelid::regclass AS relation, attname, 0 AS rows FROM pg_constraint
            JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
            WHERE TG_OP = 'DELETE' AND confrelid = TG_RELID AND confdeltype = 'c' LOOP
        EXECUTE format('SELECT count(*) FROM %s WHERE %I = $1', child.relation, child.attname)
            INTO child.rows USING (before ->> 'id')::uuid;
        IF child.rows > 0 THEN gone := gone || jsonb_build_object(child.relation, child.rows); END IF;
    END LOOP;
    IF TG_OP = 'UPDATE' THEN
        SELECT array_agg(key ORDER BY key) INTO changed FROM jsonb_each(shown)
        WHERE value IS DISTINCT FROM before -> key AND key <> 'updated_at' AND key <> ALL (TG_ARGV[1:]);
        IF changed IS NULL THEN RETURN NULL; END IF;
    END IF;
    SELECT jsonb_object_agg(regexp_replace(key, '_id$', ''), left(value, 200)) INTO entry FROM jsonb_each_text(shown)
    WHERE value IS NOT NULL AND key IN ('name', 'email', 'role', 'user_id', 'agent_id', 'template_id', 'adapter_id',
                                        'tool_id', 'webhook_id');
    entry := coalesce(entry, '{}') || jsonb_build_object('resource', TG_ARGV[0], 'action',
        CASE TG_OP WHEN 'INSERT' THEN 'created' WHEN 'UPDATE' THEN 'changed' ELSE 'deleted' END);
    IF changed IS NOT NULL THEN entry := entry || jsonb_build_object('fields', changed); END IF;
    IF gone <> '{}' THEN entry := entry || jsonb_build_object('deleted_with', gone); END IF;
    INSERT INTO event_of_program (types, organization_ids, agent_ids, resource_ids, data)
        SELECT ARRAY['audit'], ARRAY[owner], ARRAY[NULL::uuid],
               ARRAY[coalesce(shown ->> 'id', shown ->> 'adapter_id')::uuid], ARRAY[entry::text]
        FROM (
            SELECT (shown ->> 'organization_id')::uuid
            UNION ALL SELECT (shown ->> 'id')::uuid WHERE TG_ARGV[0] = 'organization'
            UNION ALL SELECT organization_id FROM membership
                WHERE TG_ARGV[0] = 'account' AND user_id = (shown ->> 'id')::uuid
            UNION ALL SELECT organization_id FROM adapter
                WHERE TG_ARGV[0] IN ('tool', 'mcp_server') AND id = (shown ->> 'adapter_id')::uuid
            UNION ALL SELECT organization_id FROM template
                WHERE TG_ARGV[0] = 'adapter_config' AND id = (shown ->> 'template_id')::uuid
            UNION ALL SELECT organization_id FROM webhook
                WHERE TG_ARGV[0] = 'webhook_secret' AND id = (shown ->> 'webhook_id')::uuid
        ) owners (owner) WHERE owner IS NOT NULL;
    RETURN NULL;
END $$;

-- Record changes of a table; `unrecorded` columns are those that the service itself writes all the time. The triggers
-- of a row fire in the order of their names, capitals first. So "Audit_row" counts what is deleted with a row before the
-- triggers of foreign keys, which are called RI_ConstraintTrigger…, delete it.
CREATE FUNCTION audit_table(audited regclass, resource text, VARIADIC unrecorded text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TRIGGER "Audit_row" AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION '
                   || 'audit_row(%s)', audited, (SELECT string_agg(quote_literal(argument), ', ' ORDER BY place)
                   FROM unnest(resource || unrecorded) WITH ORDINALITY AS a (argument, place)));
    EXECUTE format('CREATE TRIGGER audit_refuse_truncate BEFORE TRUNCATE ON %s FOR EACH STATEMENT '
                   || 'EXECUTE FUNCTION refuse_truncate()', audited);
END $$;

SELECT audit_table('organization', 'organization', 'paused');  -- which is an event of its own
SELECT audit_table('user_account', 'account', VARIADIC '{}');
SELECT audit_table('membership', 'membership', VARIADIC '{}');
SELECT audit_table('invite', 'invite', VARIADIC '{}');
SELECT audit_table('api_key', 'api_key', 'last_used_at');
SELECT audit_table('template', 'template', 'prompt_version', 'prompt_author', 'prompt_changed_at');
SELECT audit_table('adapter', 'adapter', VARIADIC '{}');
SELECT audit_table('tool', 'tool', VARIADIC '{}');
SELECT audit_table('adapter_config', 'adapter_config', VARIADIC '{}');
SELECT audit_table('mcp_server', 'mcp_server', 'refresh_at', 'listed_at', 'error');
SELECT audit_table('secret', 'secret', VARIADIC '{}');
SELECT audit_table('hook', 'hook', VARIADIC '{}');
SELECT audit_table('webhook', 'webhook', 'position', 'failing_since');
SELECT audit_table('webhook_secret', 'webhook_secret', VARIADIC '{}');
SELECT audit_table('approval_grant', 'approval_grant', 'used_count', 'last_used_at');
