-- Settings and results of agents that talk with people and remember them.

ALTER TABLE template
    ADD COLUMN context_tokens integer NOT NULL DEFAULT 0 CHECK (context_tokens >= 0),  -- 0: the configuration's
    ADD COLUMN carry_over text NOT NULL DEFAULT 'journal' CHECK (carry_over IN ('none', 'journal', 'transcript')),
    ADD COLUMN reply text NOT NULL DEFAULT 'tool' CHECK (reply IN ('tool', 'text')),
    ADD COLUMN content text NOT NULL DEFAULT '' CHECK (content IN ('', 'full', 'none')),  -- '': the configuration's
    ADD COLUMN content_days integer CHECK (content_days >= 0),   -- NULL: the configuration's; 0: as long as the trace
    ADD COLUMN environment_secrets text[] NOT NULL DEFAULT '{}', -- names of secrets that process harnesses get
    ADD COLUMN unpriced text NOT NULL DEFAULT 'refuse' CHECK (unpriced IN ('refuse', 'allow'));

ALTER TABLE agent
    ADD COLUMN language text NOT NULL DEFAULT '',                -- of full-text search; '': words are not stemmed
    ADD COLUMN unpriced text CHECK (unpriced IN ('refuse', 'allow'));  -- NULL: the template's

ALTER TABLE organization
    ADD COLUMN unpriced text NOT NULL DEFAULT 'refuse' CHECK (unpriced IN ('refuse', 'allow'));

ALTER TABLE run
    ADD COLUMN output text NOT NULL DEFAULT '',                  -- the text of the final answer
    ADD COLUMN journal json;                                     -- NULL while the run is active

ALTER TABLE message
    ADD COLUMN run_id uuid;                                      -- the run that sent it, which retention may delete

ALTER TABLE document
    ADD COLUMN path text;                                        -- NULL for documents that no agent finds by path
CREATE UNIQUE INDEX document_path_unique ON document (agent_id, path);
