-- Which instance has the epoch. A standby that is promoted may have missed the latest epochs and count them
-- again, so the number alone does not say who leads.
ALTER TABLE instance ADD COLUMN leader_id uuid;
