"""Runs commands of `hostsvc`: in this process for an exit code and output, or as a process of their own."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from hostsvc.cli.commands import main

Process = subprocess.Popen[str]

INHERITED_VARIABLES = ("PATH", "HOME", "TMPDIR")


@dataclass(frozen=True)
class Finished:
    """The exit code and the output of a finished command."""

    code: int
    out: str
    err: str


def hostsvc(directory: Path, *arguments: str, **environment: str) -> Finished:
    """Run a command in this process, with `directory` as the working directory."""
    with chdir(directory):
        result = CliRunner().invoke(main, arguments, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Finished(result.exit_code, result.stdout, result.stderr)


@contextmanager
def started(directory: Path, *arguments: str, **environment: str) -> Iterator[Process]:
    """Start `python -m hostsvc` as a process, and kill it at the end of the block."""
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "hostsvc", *arguments],
        cwd=directory,
        env=inherited | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: Process) -> str:
    assert process.stdout
    return process.stdout.readline().rstrip()


def finished(process: Process) -> Finished:
    out, err = process.communicate(timeout=60)
    return Finished(process.returncode, out, err)


def refusal(done: Finished) -> str:
    """Return the one line of a refused command."""
    assert done.code == 2, done
    assert done.out == "", done
    (line,) = done.err.splitlines()
    assert line.startswith("hostsvc: ")
    return line.removeprefix("hostsvc: ")
