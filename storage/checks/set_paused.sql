-- Ends the transaction that restores a backup, whose schema may be that of any release.
SET search_path = public;

ALTER TABLE instance ADD COLUMN IF NOT EXISTS paused_at timestamptz,
                     ADD COLUMN IF NOT EXISTS paused_because text NOT NULL DEFAULT '';
UPDATE instance SET paused_at = '/* now */', paused_because = '/* because */';

DO $$ BEGIN
    -- The nodes of the backup do not live on this database, though their rows say so.
    IF to_regclass('node') IS NOT NULL THEN
        UPDATE node SET state = 'dead', ended_at = '/* now */' WHERE state <> 'dead';
    END IF;
    -- The call may have been made since the backup, so it counts as cut off: made again only if that does no harm.
    IF to_regclass('parked_call') IS NOT NULL THEN
        UPDATE parked_call SET state = 'calling' WHERE state = 'due';
    END IF;
END $$;

COMMIT;
