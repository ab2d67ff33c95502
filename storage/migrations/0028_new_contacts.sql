-- Whether agents may create contacts: to write to somebody new, or to note somebody.
ALTER TABLE template ADD COLUMN may_create_contacts boolean NOT NULL DEFAULT true;
