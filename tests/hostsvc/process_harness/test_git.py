"""The mirror: refs resolved to commits, fetches, and failures, with real git throughout."""

import asyncio
import os
import socket
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from hostsvc.process_harness.git import GitFailed, Mirror, NoSuchRef, address_of
from hostsvc.process_harness.programs import remove
from tests.git_repository import GitRepository
from tests.processes import POLL_SECONDS, all_gone, marked


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    return GitRepository.make(tmp_path / "agents")


async def mirror_of(repository: str, tmp_path: Path, seconds: float = 30) -> Mirror:
    mirror = Mirror(repository, tmp_path / "cache/mirror.git", tmp_path / "cache", seconds, os.environ)
    await mirror.prepare()
    return mirror


@pytest.fixture
async def mirror(repository: GitRepository, tmp_path: Path) -> Mirror:
    return await mirror_of(str(repository.path), tmp_path)


@pytest.mark.parametrize(
    "ref",
    [
        *("--upload-pack=touch /tmp/x", "-x", "a\n--x", "a b", "a\x00", "a\u202eb", "a\\b", "a*", "a?"),
        *("../x", "a/../b", "a..b", "/etc/passwd", ".git", "a/.b", "a//b", "a/", "a.", "a.lock", "a.lock/b"),
        *("@", "[a]", "main@{1}", "main^", "main~2", ":/fix", "main:run.py"),
    ],
)
async def test_invalid_ref_is_refused_before_git_sees_it(mirror: Mirror, ref: str) -> None:
    with pytest.raises(NoSuchRef, match="cannot be the name of a branch, a tag or a commit"):
        await mirror.resolve(ref)


async def test_resolve_finds_branches_tags_and_commits(repository: GitRepository, mirror: Mirror) -> None:
    first = repository.commit(run="1")
    repository.git("tag", "v1.2")
    repository.git("tag", "--annotate", "--message=x", "heavy")
    repository.git("tag", "--annotate", "--message=of a tag", "released", "heavy")
    repository.git("tag", "twice")
    repository.branch("twice")
    repository.branch("feature/größe@2")
    second = repository.commit(run="2")
    repository.git("branch", first)
    repository.git("branch", "--force", "twice")
    await mirror.fetch()
    named = {
        first: ("main", "v1.2", "heavy", "released", "refs/heads/main", "refs/tags/heavy", "refs/tags/twice"),
        second: ("feature/größe@2", "twice", second[:7]),
    }
    for commit, refs in named.items():
        for ref in (*refs, commit):  # a branch precedes a tag of its name, and a full hash any name
            assert await mirror.resolve(ref) == commit, ref


async def test_resolve_refuses_unknown_refs(repository: GitRepository, mirror: Mirror) -> None:
    repository.commit(run="1")
    repository.branch("feature/x")
    repository.git("tag", "blob", repository.git("rev-parse", "HEAD:run.py"))
    await mirror.fetch()
    for ref in ("nowhere", "feature", "refs/heads", "blob", "0" * 40, "abcdef1", "HEAD", "refs/remotes/x"):
        with pytest.raises(NoSuchRef, match=f'^the repository has no branch, tag or commit "{ref}"$'):
            await mirror.resolve(ref)


async def test_resolve_refuses_unreachable_commit(repository: GitRepository, mirror: Mirror) -> None:
    repository.commit(run="1")
    dropped = repository.commit(run="2")
    await mirror.fetch()
    assert await mirror.resolve(dropped) == dropped
    repository.git("reset", "--quiet", "--hard", "HEAD^")
    await mirror.fetch()
    for ref in (dropped, dropped[:10], f"x-1-g{dropped[:10]}"):
        with pytest.raises(NoSuchRef):
            await mirror.resolve(ref)


async def test_fetch_follows_moved_and_deleted_branches(repository: GitRepository, mirror: Mirror) -> None:
    repository.commit(run="1")
    repository.branch("a")
    await mirror.fetch()
    repository.git("checkout", "--quiet", "main")
    repository.git("branch", "-D", "a")
    repository.branch("a/b")
    second = repository.commit(run="2")
    repository.git("commit", "--quiet", "--amend", "--message=other")
    await mirror.fetch()
    assert await mirror.resolve("a/b") == repository.git("rev-parse", "HEAD") != second
    with pytest.raises(NoSuchRef):
        await mirror.resolve("a")


async def test_write_creates_the_files_of_the_commit(
    repository: GitRepository, mirror: Mirror, tmp_path: Path
) -> None:
    (repository.path / "run.sh").write_text("#!/bin/sh\n")
    (repository.path / "run.sh").chmod(0o755)
    (repository.path / "link").symlink_to("run.sh")
    (repository.path / ".gitattributes").write_text("run.sh export-ignore\n*.py filter=evil\n")
    commit = repository.commit(run="print()")
    await mirror.fetch()
    (tmp_path / "tree").mkdir()
    await mirror.write(commit, tmp_path / "tree", tmp_path / "index")
    assert {path.name for path in (tmp_path / "tree").iterdir()} == {
        "run.sh",
        "link",
        ".gitattributes",
        "run.py",
    }
    assert os.access(tmp_path / "tree/run.sh", os.X_OK)
    assert os.readlink(tmp_path / "tree/link") == "run.sh"


async def test_fetch_reports_missing_repository(tmp_path: Path) -> None:
    mirror = await mirror_of(str(tmp_path / "nowhere"), tmp_path)
    with pytest.raises(GitFailed, match=r"^git fetch: .*does not appear to be a git repository"):
        await mirror.fetch()


async def test_fetch_is_ended_after_its_timeout(tmp_path: Path) -> None:
    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        await release.wait()
        writer.close()

    connected, release = asyncio.Event(), asyncio.Event()
    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    mirror = await mirror_of(f"git://127.0.0.1:{port}/x", tmp_path, seconds=0.3)
    with pytest.raises(GitFailed, match=r"^git fetch took longer than 0.3 s$"):
        await mirror.fetch()
    assert connected.is_set()
    release.set()
    server.close()


async def test_password_in_address_is_neither_reported_nor_stored(tmp_path: Path) -> None:
    mirror = await mirror_of("https://ada:hunter2@127.0.0.1:1/x.git", tmp_path)
    with pytest.raises(GitFailed) as caught:
        await mirror.fetch()
    assert "127.0.0.1" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in all_content(tmp_path)


async def test_prepare_removes_lock_files_of_a_killed_git(
    repository: GitRepository, mirror: Mirror, tmp_path: Path
) -> None:
    repository.commit(run="1")
    await mirror.fetch()
    second = repository.commit(run="2")
    (tmp_path / "cache/mirror.git/refs/heads/main.lock").touch()
    with pytest.raises(GitFailed, match="File exists"):
        await mirror.fetch()
    mirror = await mirror_of(str(repository.path), tmp_path)
    await mirror.fetch()
    assert await mirror.resolve("main") == second


async def test_branch_name_may_have_very_many_levels(
    repository: GitRepository, mirror: Mirror, tmp_path: Path
) -> None:
    commit = repository.commit(run="1")
    name = "/".join("a" * 500)
    repository.git("branch", name)
    try:
        await mirror.fetch()
        mirror = await mirror_of(str(repository.path), tmp_path)
        assert await mirror.resolve(name) == commit
    finally:
        for directory in (repository.path, tmp_path / "cache"):
            await remove(directory)  # pytest cannot remove it


async def test_failed_fetch_leaves_no_partial_objects(
    repository: GitRepository, mirror: Mirror, tmp_path: Path
) -> None:
    repository.commit(run="1")
    repository.git("branch", "tmp_pack_mine")
    await mirror.fetch()
    partial = tmp_path / "cache/mirror.git/objects/pack/tmp_pack_xYz123"
    partial.touch()
    repository.path.rename(tmp_path / "elsewhere")
    with pytest.raises(GitFailed):
        await mirror.fetch()
    assert not partial.exists()
    assert await mirror.resolve("tmp_pack_mine")


async def test_fetch_does_not_wait_for_garbage_collection(repository: GitRepository, tmp_path: Path) -> None:
    mirror = await mirror_of(str(repository.path), tmp_path, seconds=2)
    bare = GitRepository(tmp_path / "cache/mirror.git")
    bare.git("config", "fetch.unpackLimit", "1")
    bare.git("config", "gc.autoPackLimit", "1")
    bare.git("config", "core.hooksPath", "hooks")
    hook = bare.path / "hooks/pre-auto-gc"
    hook.parent.mkdir()
    hook.write_text("#!/bin/sh\nexec sleep 600\n")
    hook.chmod(0o755)
    for step in "123":
        commit = repository.commit(run=step)
        await mirror.fetch()
    assert len(list(bare.path.glob("objects/pack/*.pack"))) == 3

    hook.unlink()
    await mirror.collect_garbage()
    assert len(list(bare.path.glob("objects/pack/*.pack"))) == 1
    assert await mirror.resolve("main") == commit


async def test_git_ends_in_time_after_service_is_killed(tmp_path: Path) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    program = (
        "import asyncio, os, sys; from pathlib import Path; from hostsvc.process_harness import git;"
        "git.CLEAN_UP_SECONDS = 0; home = Path(sys.argv[2]); (home / 'mirror.git').mkdir(parents=True);"
        "mirror = git.Mirror(sys.argv[1], home / 'mirror.git', home, 1, os.environ);"
        "asyncio.run(mirror.prepare()); print(flush=True); asyncio.run(mirror.fetch())"
    )
    home = tmp_path / "cache"
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, f"git://127.0.0.1:{port}/x", str(home)), stdout=PIPE
    )
    assert service.stdout is not None
    await service.stdout.readline()
    while not marked(str(home)):  # noqa: ASYNC110 -- it is not our child
        await asyncio.sleep(POLL_SECONDS)
    service.kill()
    await service.wait()
    await all_gone(str(home))
    server.close()


def all_content(directory: Path) -> str:
    return "\n".join(file.read_text(errors="replace") for file in directory.rglob("*") if file.is_file())


def test_address_of_makes_paths_absolute_and_keeps_urls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a:b").mkdir()
    for given, address in (
        ("agents", str(tmp_path / "agents")),
        ("./x:y", str(tmp_path / "x:y")),
        ("a:b", str(tmp_path / "a:b")),
        ("/srv/agents.git", "/srv/agents.git"),
        ("git@example.org:agents.git", "git@example.org:agents.git"),
        ("https://example.org/agents.git", "https://example.org/agents.git"),
    ):
        assert address_of(given) == address
