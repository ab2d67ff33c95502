-- Memory: earlier versions of documents, deletions that can be undone, and full-text search.

-- Return the lexemes by which a document is found: its words as they are written, and also their stems if the
-- language is given. Lexemes with the ids of the owners let one GIN index find the words of one owner. Of the content
-- the first 50,000 characters count: the lexemes of more could be longer than the 1 MB that a tsvector may have.
CREATE FUNCTION document_search(
    organization_id uuid, agent_id uuid, language text, title text, path text, content text
) RETURNS tsvector LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    SELECT array_to_tsvector(ARRAY[
               'organization:' || organization_id::text,
               coalesce('agent:' || agent_id::text, 'shared:' || organization_id::text)])
           || setweight(to_tsvector('simple'::regconfig, name), 'A') || to_tsvector('simple'::regconfig, body)
           || CASE WHEN language = '' THEN ''::tsvector
                   ELSE setweight(to_tsvector(language::regconfig, name), 'A')
                        || to_tsvector(language::regconfig, body) END
    FROM (SELECT title || ' ' || coalesce(translate(path, '/_-.', '    '), '') AS name,
                 left(content, 50000) AS body) AS text
);

ALTER TABLE document
    ALTER COLUMN path TYPE text COLLATE "C",                     -- so that a directory is a range of paths
    ADD COLUMN language text NOT NULL DEFAULT '',                -- the agent's, when the document was last written
    ADD COLUMN version integer NOT NULL DEFAULT 1,
    ADD COLUMN author text NOT NULL DEFAULT '',                  -- key:…, user:… or agent:…; '': unknown
    ADD COLUMN run_id uuid,                                      -- the run that wrote it, which retention may delete
    ADD COLUMN deleted_at timestamptz;                           -- deleted by an agent, which can be undone
ALTER TABLE document
    ADD COLUMN search tsvector NOT NULL
        GENERATED ALWAYS AS (document_search(organization_id, agent_id, language, title, path, content)) STORED;

DROP INDEX document_path_unique;
CREATE UNIQUE INDEX document_path_unique ON document (agent_id, path) WHERE path IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX document_of_path ON document (organization_id, path) WHERE path IS NOT NULL;
CREATE INDEX document_deleted ON document (organization_id, created_at DESC, id DESC) WHERE deleted_at IS NOT NULL;
CREATE INDEX document_deleted_at ON document (deleted_at) WHERE deleted_at IS NOT NULL;
-- Without the list of pending entries, which each search would read.
CREATE INDEX document_search_words ON document USING gin (search) WITH (fastupdate = off);

-- What documents contained before they were changed. The current version is the document itself.
CREATE TABLE document_version (
    document_id uuid NOT NULL REFERENCES document (id) ON DELETE CASCADE,
    number integer NOT NULL,
    organization_id uuid NOT NULL,
    title text NOT NULL,
    content text NOT NULL,
    content_type text NOT NULL,
    author text NOT NULL,
    run_id uuid,
    created_at timestamptz NOT NULL,                             -- when this version was written
    PRIMARY KEY (document_id, number)
);
CREATE INDEX document_version_of_organization ON document_version (organization_id);
