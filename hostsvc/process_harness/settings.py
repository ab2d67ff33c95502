"""The settings of the harness, which executes runs."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from supervisors.settings import YEAR_SECONDS, Bounded, between

# git would run the program that `<helper>::<address>` names.
REMOTE_HELPER = re.compile(r"[A-Za-z0-9]+::")
MAX_LIMIT = 2**31 - 1

CONTAINMENTS = ("auto", "bubblewrap", "none")
FORMER_CONTAINMENTS = ("cgroup", "namespace", "user")  # until version 0.1

ContainmentKind = Literal["bubblewrap", "none"]
Network = Literal["full", "service"]


@dataclass(frozen=True, slots=True)
class RunLimits(Bounded):
    """The limits of one run in a process of its own; 0 means no limit.

    `processes` counts threads, too. `memory_mb`, `cpu_seconds`, `file_mb` and `open_files` apply to each
    single process; in a control group `memory_mb` applies to all of them together.
    """

    processes: int = between(512, 0, MAX_LIMIT)
    memory_mb: int = between(2048, 0, MAX_LIMIT)
    cpu_seconds: int = between(0, 0, MAX_LIMIT)
    file_mb: int = between(1024, 0, MAX_LIMIT)
    open_files: int = between(1024, 0, MAX_LIMIT)
    home_mb: int = between(1024, 0, MAX_LIMIT)

    def __post_init__(self) -> None:
        Bounded.__post_init__(self)
        if 0 < self.open_files < 16:
            raise ValueError(f"open_files must be at least 16 or 0 (no limit), got {self.open_files}")


@dataclass(frozen=True, slots=True)
class HarnessSettings(Bounded):
    """The built-in loop, or the agents' own code: a command in a git repository, started for each run.

    `repository` may contain a password. `user` is the operating-system user that runs the code; blank means
    the user of the service. `containment` is one of CONTAINMENTS.
    """

    kind: Literal["builtin", "process"] = "builtin"
    repository: str = field(default="", repr=False)
    command: tuple[str, ...] = ()
    user: str = ""
    containment: str = "auto"
    network: Network = "full"
    cache_dir: Path = Path("data/harness")
    cache_commits: int = between(20, 1, 100_000)
    git_timeout_seconds: float = between(30.0, 0.1, YEAR_SECONDS)
    limits: RunLimits = field(default_factory=RunLimits)

    def __post_init__(self) -> None:
        if self.repository.startswith("-") or REMOTE_HELPER.match(self.repository):
            raise ValueError("repository must be a path or a URL that git can fetch from")
        if self.repository and not self.repository.isprintable():
            raise ValueError("repository must consist of visible characters")
        if self.command and not self.command[0].strip():
            raise ValueError('command must be a program and its arguments, such as ["python3", "run.py"]')
        if self.containment not in CONTAINMENTS:
            was_removed = self.containment in FORMER_CONTAINMENTS
            hint = '; it was removed in version 0.2: write "bubblewrap" instead' if was_removed else ""
            known = ", ".join(CONTAINMENTS)
            raise ValueError(f"containment must be one of {known}, got {self.containment!r}{hint}")
        Bounded.__post_init__(self)

    def missing(self) -> list[str]:
        """Return the keys that `kind` needs and that are not set."""
        if self.kind == "builtin":
            return []
        needed = {"repository": self.repository.strip(), "command": self.command}
        return [key for key, value in needed.items() if not value]
