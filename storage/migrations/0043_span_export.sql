-- rolling
-- Up to which event the ended runs have been exported, with their spans, to a receiver of OpenTelemetry.
CREATE TABLE span_export (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    position bigint NOT NULL
);
