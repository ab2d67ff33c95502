"""A git repository that holds the code of a test's harness."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "tag.gpgSign=false")


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A work tree with its history. It starts on `main`, without a commit."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> "GitRepository":
        path.mkdir(parents=True)
        repository = cls(path)
        repository.git("init", "--quiet", "--initial-branch=main")
        return repository

    def git(self, *arguments: str) -> str:
        result = subprocess.run(
            ["git", *AUTHOR, *arguments], cwd=self.path, check=True, capture_output=True, text=True
        )
        return result.stdout.strip()

    def commit(self, **files: str) -> str:
        """Commit these files in addition to the present ones (`run` is run.py) and return the hash."""
        for name, content in files.items():
            (self.path / f"{name}.py").write_text(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message=step")
        return self.git("rev-parse", "HEAD")

    def branch(self, name: str) -> None:
        """Check out this branch, created at the present commit if it does not exist."""
        self.git("checkout", "--quiet", "-B", name)
