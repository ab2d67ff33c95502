-- rolling
-- Up to which event the ended runs have been exported, with their spans, to a receiver of OpenTelemetry. NULL: none.
ALTER TABLE instance ADD COLUMN spans_exported_until bigint;
