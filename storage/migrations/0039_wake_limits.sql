-- rolling
-- How often an agent may wake, and when nothing but a person wakes it.

ALTER TABLE template
    ADD COLUMN max_wakes_per_hour integer CHECK (max_wakes_per_hour > 0),  -- null: no limit
    ADD COLUMN max_wakes_per_day integer CHECK (max_wakes_per_day > 0),
    ADD COLUMN quiet_hours text NOT NULL DEFAULT '';                       -- such as Mon-Fri 22:00-07:00
ALTER TABLE agent
    ADD COLUMN max_wakes_per_hour integer CHECK (max_wakes_per_hour > 0),  -- null: those of the template
    ADD COLUMN max_wakes_per_day integer CHECK (max_wakes_per_day > 0),
    ADD COLUMN quiet_hours text;
ALTER TABLE notification ADD COLUMN urgent boolean NOT NULL DEFAULT false; -- wakes in spite of all these
