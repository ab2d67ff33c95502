"""`hostsvc adapters`, as a shell sees it."""

from pathlib import Path
from uuid import UUID

import psycopg2

from storage.ids import new_id
from tests.hostsvc.cli.test_commands import hostsvc, refusal

INSERT_ADAPTER = """
WITH owner AS (INSERT INTO organization VALUES (gen_random_uuid(), 'Acme', false, now()) RETURNING id)
INSERT INTO adapter (id, organization_id, name, created_at) SELECT %s, id, 'Mail', now() FROM owner
"""


def insert_adapter(database_url: str) -> UUID:
    adapter_id = new_id()
    with psycopg2.connect(database_url) as connection, connection.cursor() as cursor:
        cursor.execute(INSERT_ADAPTER, (str(adapter_id),))
    connection.close()
    return adapter_id


def visibility(database_url: str) -> str:
    with psycopg2.connect(database_url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT visibility FROM adapter")
        ((found,),) = cursor.fetchall()
    connection.close()
    return str(found)


def test_an_operator_publishes_an_adapter(tmp_path: Path, database_url: str) -> None:
    adapter_id = insert_adapter(database_url)
    for _ in range(2):
        done = hostsvc(tmp_path, "adapters", "publish", str(adapter_id), HOSTSVC__DATABASE__URL=database_url)
        said = "Mail is public: every organization can see and attach it\n"
        assert (done.code, done.out, done.err) == (0, said, ""), done
    assert visibility(database_url) == "public"


def test_an_adapter_that_is_not_there_is_one_line(tmp_path: Path, database_url: str) -> None:
    insert_adapter(database_url)
    nobody = str(new_id())
    line = refusal(hostsvc(tmp_path, "adapters", "publish", nobody, HOSTSVC__DATABASE__URL=database_url))
    assert line == f"there is no adapter {nobody}"
    assert visibility(database_url) == "private"


def test_an_older_schema_is_one_line_that_says_what_to_do(tmp_path: Path, empty_database_url: str) -> None:
    line = refusal(
        hostsvc(tmp_path, "adapters", "publish", str(new_id()), HOSTSVC__DATABASE__URL=empty_database_url)
    )
    assert line == "the database has an older schema: run hostsvc migrate first"
