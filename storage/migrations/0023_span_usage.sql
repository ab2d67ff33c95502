-- What the model call of a span used: read from its attributes when it is written, so that pages of spans show it
-- without reading metadata. NULL for spans that used nothing, and for those from before.
ALTER TABLE span
    ADD COLUMN input_tokens bigint,
    ADD COLUMN output_tokens bigint,
    ADD COLUMN cached_tokens bigint,
    ADD COLUMN cost_usd double precision;
