-- What a template asks of its agents' models in each request; null, 0 and 'auto': nothing is sent.
ALTER TABLE template
    ADD COLUMN temperature double precision,
    ADD COLUMN max_output_tokens integer NOT NULL DEFAULT 0,
    ADD COLUMN tool_choice text NOT NULL DEFAULT 'auto',
    ADD COLUMN response_format json;
