-- Versions of system prompts, which version each run was told, and agents that create agents.

-- Who wrote the current system prompt, and when: key:…, user:… or run:…; '' if it is not known. A prompt without a time
-- is as old as its agent or template.
ALTER TABLE agent
    ADD COLUMN prompt_version integer NOT NULL DEFAULT 1,
    ADD COLUMN prompt_author text NOT NULL DEFAULT '',
    ADD COLUMN prompt_changed_at timestamptz;
ALTER TABLE template
    ADD COLUMN prompt_version integer NOT NULL DEFAULT 1,
    ADD COLUMN prompt_author text NOT NULL DEFAULT '',
    ADD COLUMN prompt_changed_at timestamptz;

-- The prompt that a run was told: {"of": "agent" or "template", "id": …, "version": …}; null if there was none.
ALTER TABLE run ADD COLUMN prompt json;

-- What the prompts of agents and templates were before they were changed. The current version is in their own rows.
CREATE TABLE prompt_version (
    owner_id uuid NOT NULL,                                      -- an agent or a template
    number integer NOT NULL,
    text text NOT NULL,
    author text NOT NULL,
    created_at timestamptz NOT NULL,                             -- when this version was written
    PRIMARY KEY (owner_id, number)
);

-- All versions, with the current ones.
CREATE VIEW prompt AS
SELECT owner_id, number, text, author, created_at FROM prompt_version
UNION ALL
SELECT id, prompt_version, system_prompt, prompt_author, coalesce(prompt_changed_at, created_at) FROM agent
UNION ALL
SELECT id, prompt_version, system_prompt, prompt_author, coalesce(prompt_changed_at, created_at) FROM template;

-- Keeps the prompt that a statement replaces, so that there are up to 50 versions. A statement may always give author
-- and time: they count only if the prompt changes.
CREATE FUNCTION prompt_keep() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.system_prompt = OLD.system_prompt THEN
        NEW.prompt_author := OLD.prompt_author;
        NEW.prompt_changed_at := OLD.prompt_changed_at;
        RETURN NEW;
    END IF;
    INSERT INTO prompt_version (owner_id, number, text, author, created_at)
    VALUES (OLD.id, OLD.prompt_version, OLD.system_prompt, OLD.prompt_author,
            coalesce(OLD.prompt_changed_at, OLD.created_at));
    NEW.prompt_version := OLD.prompt_version + 1;
    DELETE FROM prompt_version WHERE owner_id = OLD.id AND number <= NEW.prompt_version - 50;
    RETURN NEW;
END $$;
CREATE TRIGGER prompt_keep BEFORE UPDATE OF system_prompt, prompt_author, prompt_changed_at ON agent
    FOR EACH ROW EXECUTE FUNCTION prompt_keep();
CREATE TRIGGER prompt_keep BEFORE UPDATE OF system_prompt, prompt_author, prompt_changed_at ON template
    FOR EACH ROW EXECUTE FUNCTION prompt_keep();

-- Versions go with their agent or template, whatever statement deletes it.
CREATE FUNCTION prompt_delete() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    DELETE FROM prompt_version WHERE owner_id = OLD.id;
    RETURN NULL;
END $$;
CREATE TRIGGER prompt_delete AFTER DELETE ON agent FOR EACH ROW EXECUTE FUNCTION prompt_delete();
CREATE TRIGGER prompt_delete AFTER DELETE ON template FOR EACH ROW EXECUTE FUNCTION prompt_delete();

-- Whether agents may create agents that work for them.
ALTER TABLE template ADD COLUMN may_create_agents boolean NOT NULL DEFAULT false;
