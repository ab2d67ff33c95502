"""`hostsvc vacuum`, as a shell sees it."""

from contextlib import closing
from pathlib import Path

import psycopg2

from tests.hostsvc.cli.test_commands import hostsvc

INSERT_OLD = """
WITH owner AS (INSERT INTO organization VALUES (gen_random_uuid(), 'Acme', false, now()) RETURNING id)
INSERT INTO trace (id, organization_id, agent_id, name, started_at)
SELECT gen_random_uuid(), id, gen_random_uuid(), 'old', now() - interval '50 days' FROM owner
"""


def test_what_is_kept_no_longer_goes_at_once_and_is_counted(tmp_path: Path, database_url: str) -> None:
    with closing(psycopg2.connect(database_url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(INSERT_OLD)
    for days, traces in ((51, 0), (49, 1), (49, 0)):
        done = hostsvc(
            tmp_path,
            "vacuum",
            HOSTSVC__DATABASE__URL=database_url,
            HOSTSVC__RETENTION__TRACES=str(days),
            HOSTSVC__RETENTION__USAGE="0",
        )
        assert (done.code, done.err) == (0, ""), done
        assert done.out.splitlines() == [
            "removed 0 rows left by deleted agents",
            "removed 0 cleared notifications",
            f"removed {traces} traces and spans",
            "removed 0 webhook deliveries",
            "removed 0 deleted agents, traces and usage included",
        ]
