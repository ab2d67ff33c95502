"""The settings of the harness, which executes runs."""

import re
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from supervisors.settings import YEAR_SECONDS, require_between

# git would run the program that `<helper>::<address>` names.
REMOTE_HELPER = re.compile(r"[A-Za-z0-9]+::")
MAX_LIMIT = 2**31 - 1
MAX_USER_ID = 2**31 - 1
UNUSED_USER_IDS = 1000  # below are the ids that systems give to their services

ContainmentKind = Literal["cgroup", "namespace", "user", "none"]
Network = Literal["full", "service"]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits of one run in a process of its own, with all of its descendants; 0 means no limit.

    `processes` counts threads, too. `file_mb` and `open_files` apply to each single process.
    """

    processes: int = 512
    memory_mb: int = 2048
    cpu_seconds: int = 0
    file_mb: int = 1024
    open_files: int = 1024
    home_mb: int = 1024

    def __post_init__(self) -> None:
        for limit in fields(self):
            require_between(limit.name, getattr(self, limit.name), 0, MAX_LIMIT)
        if 0 < self.open_files < 16:
            raise ValueError(f"open_files must be at least 16 or 0 (no limit), got {self.open_files}")


@dataclass(frozen=True, slots=True)
class HarnessSettings:
    """The built-in loop, or the agents' own code: a command in a git repository, started for each run.

    `repository` may contain a password. `user` is the operating-system user that runs the code; blank means
    the user of the service. `first_user_id` gives each run a user of its own instead: it is the first of as
    many ids as there are run slots.
    """

    kind: Literal["builtin", "process"] = "builtin"
    repository: str = field(default="", repr=False)
    command: tuple[str, ...] = ()
    user: str = ""
    first_user_id: int = 0
    containment: Literal["auto", "cgroup", "namespace", "user", "none"] = "auto"
    network: Network = "full"
    cache_dir: Path = Path("data/harness")
    cache_commits: int = 20
    git_timeout_seconds: float = 30.0
    limits: RunLimits = field(default_factory=RunLimits)

    def __post_init__(self) -> None:
        if self.repository.startswith("-") or REMOTE_HELPER.match(self.repository):
            raise ValueError("repository must be a path or a URL that git can fetch from")
        if self.repository and not self.repository.isprintable():
            raise ValueError("repository must consist of visible characters")
        if self.command and not self.command[0].strip():
            raise ValueError('command must be a program and its arguments, such as ["python3", "run.py"]')
        if self.first_user_id:
            require_between("first_user_id", self.first_user_id, UNUSED_USER_IDS, MAX_USER_ID)
        require_between("cache_commits", self.cache_commits, 1, 100_000)
        require_between("git_timeout_seconds", self.git_timeout_seconds, 0.1, YEAR_SECONDS)

    def missing(self) -> list[str]:
        """Return the keys that `kind` needs and that are not set."""
        if self.kind == "builtin":
            return []
        needed = {"repository": self.repository.strip(), "command": self.command}
        return [key for key, value in needed.items() if not value]
