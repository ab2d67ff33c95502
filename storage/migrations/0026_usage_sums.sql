-- The sums that summaries of usage read. Triggers keep them in the transaction that inserts or deletes records,
-- whoever does so, so they always equal a count of the records.

-- Until this is committed, an older version that still leads waits with its records. Without the lock, one that it
-- inserts after the sums below and before the triggers would be in neither.
LOCK TABLE usage_record IN SHARE ROW EXCLUSIVE MODE;

-- The calls of an organization by UTC hour: a period of many days is a few thousand rows.
CREATE TABLE usage_hour (
    organization_id uuid NOT NULL,
    hour timestamptz NOT NULL,                  -- its start
    model text NOT NULL,
    calls bigint NOT NULL,
    unpriced_calls bigint NOT NULL,             -- those of unknown cost
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    cost_usd numeric NOT NULL,
    PRIMARY KEY (organization_id, hour, model)
) WITH (fillfactor = 60);

-- The calls of an agent by UTC day. Not by hour: most agents make few calls in an hour, so that would be about as many
-- rows as there are records.
CREATE TABLE usage_day (
    organization_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    day date NOT NULL,
    model text NOT NULL,
    calls bigint NOT NULL,
    unpriced_calls bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cached_tokens bigint NOT NULL,
    cost_usd numeric NOT NULL,
    PRIMARY KEY (agent_id, day, model, organization_id)
) WITH (fillfactor = 60);

INSERT INTO usage_hour
SELECT organization_id, date_trunc('hour', occurred_at, 'UTC'), model,
       count(*), count(*) FILTER (WHERE NOT priced),
       sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(cost_usd)
FROM usage_record GROUP BY 1, 2, 3;

INSERT INTO usage_day
SELECT organization_id, agent_id, (occurred_at AT TIME ZONE 'UTC')::date, model,
       count(*), count(*) FILTER (WHERE NOT priced),
       sum(input_tokens), sum(output_tokens), sum(cached_tokens), sum(cost_usd)
FROM usage_record GROUP BY 1, 2, 3, 4;

-- For the agents of an organization, or of a template, together.
CREATE INDEX usage_day_of_organization ON usage_day (organization_id, day);

-- Adds the records that a statement inserted (its argument is 1) or subtracts those that it deleted (-1). The sums are
-- locked in the order of their keys, and those of hours first, so that no two statements can deadlock.
CREATE FUNCTION usage_add_up() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    sign CONSTANT integer := TG_ARGV[0]::integer;
BEGIN
    INSERT INTO usage_hour AS h
        SELECT organization_id, date_trunc('hour', occurred_at, 'UTC'), model,
               sign * count(*), sign * count(*) FILTER (WHERE NOT priced), sign * sum(input_tokens),
               sign * sum(output_tokens), sign * sum(cached_tokens), sign * sum(cost_usd)
        FROM touched GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
        ON CONFLICT (organization_id, hour, model) DO UPDATE SET
            calls = h.calls + excluded.calls,
            unpriced_calls = h.unpriced_calls + excluded.unpriced_calls,
            input_tokens = h.input_tokens + excluded.input_tokens,
            output_tokens = h.output_tokens + excluded.output_tokens,
            cached_tokens = h.cached_tokens + excluded.cached_tokens,
            cost_usd = h.cost_usd + excluded.cost_usd;
    INSERT INTO usage_day AS d
        SELECT organization_id, agent_id, (occurred_at AT TIME ZONE 'UTC')::date, model,
               sign * count(*), sign * count(*) FILTER (WHERE NOT priced), sign * sum(input_tokens),
               sign * sum(output_tokens), sign * sum(cached_tokens), sign * sum(cost_usd)
        FROM touched GROUP BY 1, 2, 3, 4 ORDER BY 2, 3, 4, 1
        ON CONFLICT (agent_id, day, model, organization_id) DO UPDATE SET
            calls = d.calls + excluded.calls,
            unpriced_calls = d.unpriced_calls + excluded.unpriced_calls,
            input_tokens = d.input_tokens + excluded.input_tokens,
            output_tokens = d.output_tokens + excluded.output_tokens,
            cached_tokens = d.cached_tokens + excluded.cached_tokens,
            cost_usd = d.cost_usd + excluded.cost_usd;
    IF sign < 0 THEN
        DELETE FROM usage_hour h USING (
            SELECT DISTINCT organization_id, date_trunc('hour', occurred_at, 'UTC') AS hour, model FROM touched) t
            WHERE h.calls = 0 AND (h.organization_id, h.hour, h.model) = (t.organization_id, t.hour, t.model);
        DELETE FROM usage_day d USING (
            SELECT DISTINCT agent_id, (occurred_at AT TIME ZONE 'UTC')::date AS day, model, organization_id
            FROM touched) t
            WHERE d.calls = 0
              AND (d.agent_id, d.day, d.model, d.organization_id) = (t.agent_id, t.day, t.model, t.organization_id);
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER usage_add_inserted AFTER INSERT ON usage_record
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION usage_add_up('1');
CREATE TRIGGER usage_subtract_deleted AFTER DELETE ON usage_record
    REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION usage_add_up('-1');
CREATE TRIGGER usage_subtract_changed AFTER UPDATE ON usage_record
    REFERENCING OLD TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION usage_add_up('-1');
CREATE TRIGGER usage_then_add_changed AFTER UPDATE ON usage_record
    REFERENCING NEW TABLE AS touched FOR EACH STATEMENT EXECUTE FUNCTION usage_add_up('1');

CREATE FUNCTION usage_forget_all() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM usage_hour;
    DELETE FROM usage_day;
    RETURN NULL;
END $$;
CREATE TRIGGER usage_forget_all AFTER TRUNCATE ON usage_record FOR EACH STATEMENT EXECUTE FUNCTION usage_forget_all();
