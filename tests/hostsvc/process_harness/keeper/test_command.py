"""What the keeper gives to each command and takes from it."""

from pathlib import Path

from hostsvc.process_harness.keeper.command import OUT_OF_MEMORY_SCORE
from tests.hostsvc.process_harness.specs import run, spec_of


async def test_command_cannot_gain_privileges_and_is_killed_first(workspace: Path, mark: str) -> None:
    shows = "grep NoNewPrivs /proc/self/status; cat /proc/self/oom_score_adj; ulimit -c"
    end = await run(spec_of(workspace, mark, "sh", "-c", shows))
    assert end.output.split() == ["NoNewPrivs:", "1", OUT_OF_MEMORY_SCORE, "0"]


async def test_empty_command_leaves_home_alone_and_ends(workspace: Path, mark: str) -> None:
    end = await run(spec_of(workspace, mark))
    assert (end.code, end.error, end.output) == (0, "", "")
    assert list((workspace / "home").iterdir()) == []
