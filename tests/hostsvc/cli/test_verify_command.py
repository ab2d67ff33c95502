"""`hostsvc verify`: the exit code and the sentence for each export of the audit log."""

from pathlib import Path

from storage.events.audit_chain import NO_DIGEST, head_line
from tests.hostsvc.cli.shell import hostsvc

ZEROS = NO_DIGEST.hex()


def test_complete_export_is_verified(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_bytes(head_line(0, NO_DIGEST))
    done = hostsvc(tmp_path, "verify", "audit.jsonl", "--head", ZEROS)
    assert (done.code, done.out) == (0, f"the chain is complete from entry 0 to 0: {ZEROS}\n")


def test_broken_exports_have_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_bytes(head_line(0, NO_DIGEST))
    (tmp_path / "other.bin").write_bytes(b"\xff\n")
    for arguments in (["audit.jsonl", "--head", "ab" * 32], ["other.bin"]):
        done = hostsvc(tmp_path, "verify", *arguments)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("the chain is broken: ")


def test_answer_that_is_no_export_is_shown(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").write_text('{"detail": "Invalid token."}')
    done = hostsvc(tmp_path, "verify", "audit.jsonl")
    assert (done.code, done.err) == (1, "the chain is broken: this is no export: Invalid token.\n")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    assert hostsvc(tmp_path, "verify", "nothing.jsonl").code == 2
