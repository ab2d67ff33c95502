"""The rules by which a node finds that another one is dead, and who is responsible for an agent."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from uuid import UUID

import pytest

from storage.ids import new_id
from storage.postgres.node import Node, Witness, has_ended, own_process, owner_of
from tests.storage.factories import NOW

NODE = Node(7, new_id(), "other", "1", 1, ("runs",), "alive", 0, {}, NOW)
STUCK = "its beat has stopped"
NO_CONNECTION = "it has no connection to the database"


def verdicts_over_time(
    *, seconds: float, is_locked: bool = True, beats_for: float = 0.0, step: float = 0.5
) -> tuple[float, str]:
    """Return when, and why, a witness that connected at 0 condemns a node that beats until `beats_for`."""
    witness, now = Witness(0.0), 0.0
    while now <= seconds:
        node = replace(NODE, beat=int(min(now, beats_for) / step))
        verdicts = witness.judge(now, [node], {node.id} if is_locked else (), ())
        if verdicts:
            return now, verdicts[node.id]
        now += step
    return 0.0, ""


def test_node_without_locks_is_dead_after_two_seconds() -> None:
    assert verdicts_over_time(seconds=30, is_locked=False, beats_for=20) == (22.0, NO_CONNECTION)


def test_nobody_is_dead_within_five_seconds_of_own_connection() -> None:
    assert verdicts_over_time(seconds=30, is_locked=False) == (5.0, NO_CONNECTION)


def test_node_is_dead_ten_seconds_after_its_last_beat() -> None:
    assert verdicts_over_time(seconds=30, beats_for=4) == (14.0, STUCK)
    assert verdicts_over_time(seconds=30, beats_for=30) == (0.0, "")


def test_suspended_witness_condemns_nobody_for_a_beat_it_missed() -> None:
    witness = Witness(0.0)
    for moment in (0.0, 60.0, 60.5):
        assert witness.judge(moment, [NODE], {NODE.id}, ()) == {}


def test_lock_that_is_seen_again_begins_a_new_time() -> None:
    witness = Witness(-10.0)
    for moment, holders in ((0.0, ()), (1.5, (NODE.id,)), (2.0, ()), (3.5, ())):
        assert witness.judge(moment, [NODE], holders, ()) == {}
    assert witness.judge(4.0, [NODE], (), ()) == {NODE.id: NO_CONNECTION}


def test_new_life_with_the_same_number_is_another_node() -> None:
    witness = Witness(-10.0)
    witness.judge(0.0, [NODE], (), ())
    assert witness.judge(2.0, [replace(NODE, life=new_id())], (), ()) == {}


def test_ended_process_is_dead_at_once_but_condemned_only_once() -> None:
    witness = Witness(0.0)
    assert witness.judge(0.0, [NODE], {NODE.id}, [NODE.id]) == {NODE.id: "its process has ended"}
    assert witness.judge(0.0, [replace(NODE, state="condemned")], {NODE.id}, [NODE.id]) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell it")
def test_process_is_known_until_it_has_ended() -> None:
    code = "from storage.postgres.node import own_process; print(own_process(), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        process = other.stdout.readline().strip()
        assert not has_ended(process)
        other.kill()
        while not has_ended(process):  # before its parent has asked for its exit code
            pass
    assert has_ended(process)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell it")
def test_number_of_a_process_that_is_used_again_is_another_process() -> None:
    machine, namespace, pid, start = own_process().split("/")
    assert not has_ended(own_process())
    assert has_ended(f"{machine}/{namespace}/{pid}/{int(start) - 1}")


@pytest.mark.parametrize("process", ["", "1/2/3", "another boot/4026531836/1/1", "a/b/c/d/e/f"])
def test_process_of_another_machine_has_never_ended(process: str) -> None:
    assert not has_ended(process)


def test_buckets_are_shared_among_nodes_that_start_runs() -> None:
    nodes = [replace(NODE, id=number, life=UUID(int=number)) for number in range(1, 5)]
    idle = [replace(NODE, id=8, state="leaving"), replace(NODE, id=9, roles=("http",))]
    owners = [owner_of(bucket, nodes + idle) for bucket in range(1024)]
    assert set(owners) == {1, 2, 3, 4}
    assert min(Counter(owners).values()) > 200
    fewer = [owner_of(bucket, nodes[:3]) for bucket in range(1024)]
    assert all(after == before for before, after in zip(owners, fewer, strict=True) if before != 4)
    assert owner_of(0, idle) is None
