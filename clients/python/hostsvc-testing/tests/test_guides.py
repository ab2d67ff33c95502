"""The examples of docs/testing-agents.md and of the README do what the texts say, with their bugs, too."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
GUIDE = (ROOT / "docs" / "testing-agents.md").read_text()
README = (ROOT / "clients" / "python" / "hostsvc-testing" / "README.md").read_text()
NAMED_BLOCK = re.compile(r"`([\w.]+\.(?:py|yaml))`(?:(?!```).)*```(?:python|yaml)\n(.*?)```", re.DOTALL)
ALONE = ("--disable-plugin-autoload", "-p", "hostsvc_testing.plugin")


def test_examples_of_guide_pass(tmp_path: Path) -> None:
    write_files(GUIDE, tmp_path)
    assert "104 passed" in pytest_in(tmp_path, *ALONE)


def test_agent_that_forgets_to_clear_fails_first_test(tmp_path: Path) -> None:
    write_files(GUIDE, tmp_path)
    plant("forgets", tmp_path)
    output = pytest_in(tmp_path, *ALONE, "test_agent.py::test_answers_each_message_once")
    assert "1 failed" in output
    [line] = re.findall(r"E       AssertionError: assert \d+ == 1", output)
    assert line in GUIDE


def test_agent_that_answers_twice_fails_some_seeds(tmp_path: Path) -> None:
    write_files(GUIDE, tmp_path)
    plant("answers twice", tmp_path)
    output = pytest_in(tmp_path, *ALONE)
    assert "PASSED" not in output
    assert "test_answers_each_message_once" not in output
    [(seed, shown)] = re.findall(r"\nWorld of --hostsvc-seed=(\d+)\n((?:Mon .*\n)+)", GUIDE)
    again = pytest_in(tmp_path, *ALONE, f"--hostsvc-seed={seed}", "test_agent.py::test_never_answers_twice")
    for each in (output, again):
        assert re.search(rf"World of --hostsvc-seed={seed} -+\n{re.escape(shown)}", each)


def test_readme_alone_is_enough(tmp_path: Path) -> None:
    """The plugin is found by its entry point, beside all that is installed here."""
    write_files(README, tmp_path)
    [_, wrong] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "test_wrong.py").write_text(wrong)
    output = pytest_in(tmp_path)
    assert re.search(r"[1-9]\d? failed, \d+ passed", output)
    assert "test_support" not in re.sub(r".*short test summary", "", output, flags=re.DOTALL)


def write_files(text: str, folder: Path) -> None:
    """Write the blocks of a text that come after the name of their file."""
    for name, block in NAMED_BLOCK.findall(text):
        (folder / name).write_text(block)


def plant(bug: str, folder: Path) -> None:
    """Change the agent as a diff of the guide says."""
    [diff] = re.findall(rf"```diff {bug}\n(.*?)```", GUIDE, re.DOTALL)
    lines = diff.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line.startswith("-"))
    after = "".join(line[1:] for line in lines if line.startswith("+"))
    agent = (folder / "agent.py").read_text()
    assert before in agent
    (folder / "agent.py").write_text(agent.replace(before, after))


def pytest_in(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
