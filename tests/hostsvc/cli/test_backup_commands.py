"""The commands that back up, check and restore."""

import re
from pathlib import Path

import pytest

from storage.postgres.migrations import read_migrations
from tests.hostsvc.cli.shell import hostsvc, refusal
from tests.hostsvc.cli.test_database_commands import execute, rows

LAST = read_migrations()[-1].name
FOLLOWING = """The instance {state} paused until: hostsvc unpause --all. Then follow:
  agents that have something due: {agents}
  runs that were under way, whose agents start again: 0
  schedules that missed something, each by its own rule: 0
  webhooks to send, with the ids that they had: 0
  parked calls to look at: 0
invariants checked: 7, broken: 0
"""
INSERT_DUE = """
WITH owner AS (
    INSERT INTO organization VALUES (gen_random_uuid(), 'Acme', false, now()) RETURNING id
), agent AS (
    INSERT INTO agent (id, organization_id, name, model, created_at)
    SELECT gen_random_uuid(), id, 'Ada ' || n, 'builtin/inbox', now()
    FROM owner, generate_series(101, 112) AS n
    RETURNING *
)
INSERT INTO agent_state (agent_id, organization_id, next_due_at) SELECT id, organization_id, now() FROM agent
"""
INSERT_KEY = "INSERT INTO encryption_key (id, created_at) VALUES ('0011', now())"


def backed_up(folder: Path, database_url: str) -> str:
    done = hostsvc(folder, "backup", "b.sql.gz", HOSTSVC__DATABASE__URL=database_url)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("wrote b.sql.gz of hostsvc ")
    first, contents = done.out.splitlines()
    assert first.endswith(f", with the migration {LAST}")
    assert contents.startswith("from the database ")
    assert re.search(r", with organizations: \d+, agents: \d+$", contents)
    return "b.sql.gz"


def test_embedded_database_moves_to_a_server_by_two_commands(data_dir: Path, empty_database_url: str) -> None:
    assert hostsvc(data_dir, "migrate").code == 0
    assert hostsvc(data_dir, "backup", "moving.sql.gz").code == 0
    moved = hostsvc(data_dir, "restore", "moving.sql.gz", "--database", empty_database_url)
    assert (moved.code, moved.err) == (0, "")
    first, following = moved.out.split("\n", 1)
    assert first.startswith("restored moving.sql.gz, made 20")
    assert following == FOLLOWING.format(state="is", agents=0)
    [(is_paused,)] = rows(empty_database_url, "SELECT paused_at IS NOT NULL FROM instance")
    assert is_paused


def test_check_restores_elsewhere_and_leaves_nothing(
    data_dir: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = data_dir / "scratch"
    scratch.mkdir()
    execute(database_url, INSERT_DUE)
    file = backed_up(data_dir, database_url)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    checked = hostsvc(data_dir, "restore", file, "--check", HOSTSVC__DATABASE__URL=database_url)
    assert (checked.code, checked.err) == (0, "")
    names = ", ".join(f"Ada {n}" for n in range(101, 111))
    assert checked.out.split("\n", 1)[1] == FOLLOWING.format(state="would be", agents=f"12 ({names}, …)")
    assert list(scratch.iterdir()) == []


def test_check_names_a_broken_invariant(data_dir: Path, database_url: str) -> None:
    execute(database_url, INSERT_DUE)
    execute(database_url, "UPDATE agent_state SET run_id = agent_id, status = 'running'")
    checked = hostsvc(data_dir, "restore", backed_up(data_dir, database_url), "--check")
    assert checked.code == 1
    assert checked.err.startswith("I1: an active run that is not its agent's only one: 12 (")
    assert "invariants checked: 7, broken: 1\n" in checked.out


def test_missing_encryption_key_is_named_after_the_restore(data_dir: Path, database_url: str) -> None:
    execute(database_url, INSERT_KEY)
    checked = hostsvc(data_dir, "restore", backed_up(data_dir, database_url), "--check")
    assert checked.code == 2
    assert "invariants checked: 7, broken: 0\n" in checked.out
    assert "encrypted with the key 0011, which is not in accounts.encryption_keys" in checked.err


def test_restore_refuses_a_missing_file(data_dir: Path, empty_database_url: str) -> None:
    done = hostsvc(data_dir, "restore", "none.gz", HOSTSVC__DATABASE__URL=empty_database_url)
    assert refusal(done) == "none.gz: No such file or directory"


def test_backup_refuses_a_missing_folder(data_dir: Path, database_url: str) -> None:
    done = hostsvc(data_dir, "backup", "none/b.gz", HOSTSVC__DATABASE__URL=database_url)
    assert refusal(done).endswith(": No such file or directory")
