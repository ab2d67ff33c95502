-- Indexes for the filters of lists. Each one is in the order of its list, newest first, so that a page needs no
-- sorting, and holds the columns that the filters compare.

-- The runs of an organization and of an agent. Trailing columns are compared within the index, also for a page on
-- which nothing matches.
CREATE INDEX run_of_organization ON run (organization_id, started_at DESC, id DESC, wake_reason, outcome);
DROP INDEX run_of_agent;
CREATE INDEX run_of_agent ON run (agent_id, started_at DESC, id DESC, wake_reason, outcome);
-- The runs that are under way: few among all runs, and asked for often.
CREATE INDEX run_under_way ON run (organization_id, started_at DESC, id DESC) WHERE outcome IS NULL;

-- Reminders, which are few among all notifications. A notification that is not scheduled adds nothing here.
CREATE INDEX notification_scheduled ON notification (organization_id, created_at DESC, id DESC, scheduled_for)
    WHERE scheduled_for IS NOT NULL;

-- E-mail addresses compare case-insensitively, telephone numbers by their digits, names case-insensitively.
CREATE INDEX contact_of_email ON contact (organization_id, lower(email), created_at DESC, id DESC)
    WHERE email <> '';
CREATE INDEX contact_of_phone ON contact (
    organization_id, regexp_replace(phone, '[^0-9]', '', 'g'), created_at DESC, id DESC)
    WHERE phone <> '';
CREATE INDEX agent_of_name ON agent (organization_id, lower(name), created_at DESC, id DESC);
