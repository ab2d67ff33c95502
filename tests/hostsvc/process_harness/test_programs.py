"""The programs that work for the harness: none outlives its caller, and they remove what runs leave."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostsvc.process_harness.programs import remove, run_program
from tests.hostsvc.process_harness.specs import make_deep
from tests.patience import PATIENCE_SECONDS
from tests.processes import marked


async def test_remove_deletes_tree_deeper_than_longest_path(tmp_path: Path) -> None:
    tree = make_deep(tmp_path / "tree")
    await remove(tree)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user without all permissions")
def test_remove_deletes_tree_without_permissions(tmp_path: Path) -> None:
    code = """if True:
        import asyncio, os, pwd, sys
        from pathlib import Path
        from hostsvc.process_harness.programs import remove
        os.chdir(sys.argv[1])
        os.setuid(pwd.getpwnam("nobody").pw_uid)
        os.makedirs("tree/a/b")
        open("tree/a/b/file", "w").close()
        for directory in ("tree/a/b", "tree/a", "tree"):
            os.chmod(directory, 0)
        asyncio.run(remove(Path("tree")))
    """
    tmp_path.chmod(0o777)
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert os.listdir(tmp_path) == []


async def test_remove_deletes_a_file_and_ignores_a_missing_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    await remove(tmp_path / "file")
    await remove(tmp_path / "file")
    assert os.listdir(tmp_path) == []


async def test_cancelled_program_is_gone_with_its_children(mark: str) -> None:
    environment = {"PATH": os.defpath, "MARK": mark}
    program = asyncio.create_task(run_program("sh", "-c", "sleep 600; true", environment=environment))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(marked(mark)) < 2:  # noqa: ASYNC110 -- a child of our child
            await asyncio.sleep(0.01)
    program.cancel()
    with pytest.raises(asyncio.CancelledError):
        await program
    assert marked(mark) == []


async def test_program_that_takes_too_long_is_killed_if_necessary(mark: str) -> None:
    environment = {"PATH": os.defpath, "MARK": mark}
    with pytest.raises(TimeoutError):
        await run_program("sh", "-c", "trap '' TERM; sleep 600; true", environment=environment, seconds=0.5)
    assert marked(mark) == []
