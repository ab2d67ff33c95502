"""What an operator can set about the harness: what executes runs."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from supervisors.settings import YEAR_SECONDS, require_between

# git takes `<helper>::<address>` for a program to run.
REMOTE_HELPER = re.compile(r"[A-Za-z0-9]+::")


@dataclass(frozen=True, slots=True)
class HarnessSettings:
    """The built-in loop, or the agents' own code: a command in a git repository, started for each run.

    `repository` may hold a password. `user` is whom that code runs as; blank: whoever the service runs as.
    """

    kind: Literal["builtin", "process"] = "builtin"
    repository: str = field(default="", repr=False)
    command: tuple[str, ...] = ()
    user: str = ""
    cache_dir: Path = Path("data/harness")
    cache_commits: int = 20
    git_timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.repository.startswith("-") or REMOTE_HELPER.match(self.repository):
            raise ValueError("repository takes a path or a URL that git takes")
        if self.repository and not self.repository.isprintable():
            raise ValueError("repository takes visible characters only")
        if self.command and not self.command[0].strip():
            raise ValueError('command takes a program and its arguments, such as ["python3", "run.py"]')
        require_between("cache_commits", self.cache_commits, 1, 100_000)
        require_between("git_timeout_seconds", self.git_timeout_seconds, 0.1, YEAR_SECONDS)

    def missing(self) -> str | None:
        """The key without which the others make no harness."""
        if self.kind == "builtin":
            return None
        return "repository" if not self.repository.strip() else "command" if not self.command else None
