"""Hashing and verifying passwords, and the turns at the threads that do it."""

import asyncio
from threading import Event

import pytest

from web.credentials import passwords as module
from web.credentials.passwords import MAX_WAITING, NOBODYS_HASH, THREADS, Passwords
from web.errors import Unavailable


class BusyPasswords:
    """Passwords whose threads hash nothing until `end`; `order` names who was served first."""

    def __init__(self, passwords: Passwords) -> None:
        self.order: list[str] = []
        self._passwords = passwords
        self._end = Event()
        self.tasks: list[asyncio.Task[str]] = []

    def _wait(self, name: str) -> str:
        self.order.append(name)
        assert self._end.wait(10)
        return name

    async def ask(self, network: str) -> None:
        self.tasks.append(asyncio.create_task(self._passwords._run(network, lambda: self._wait(network))))
        await asyncio.sleep(0)

    async def end(self) -> list[str | BaseException]:
        self._end.set()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_password_is_verified_by_its_own_hash() -> None:
    with Passwords() as passwords:
        password_hash = await passwords.hash("correct horse", "a")
        assert "correct horse" not in password_hash
        assert await passwords.verify("correct horse", password_hash, "a")
        assert not await passwords.verify("correct house", password_hash, "a")


async def test_missing_or_broken_hash_never_verifies() -> None:
    with Passwords() as passwords:
        assert not await passwords.verify("correct horse", None, "a")
        assert not await passwords.verify("", "!", "a")


async def test_missing_hash_costs_as_much_as_real_one() -> None:
    with Passwords() as passwords:
        parameters = (await passwords.hash("correct horse", "a")).rsplit("$", 2)[0]
    assert NOBODYS_HASH.startswith(parameters)


async def test_network_with_few_requests_is_not_behind_a_flood() -> None:
    with Passwords() as passwords:
        busy = BusyPasswords(passwords)
        for _ in range(MAX_WAITING):
            await busy.ask("flood")
        await busy.ask("ann")
        await busy.end()
    assert busy.order.index("ann") < THREADS + 1


async def test_network_that_has_guessed_waits_behind_others() -> None:
    with Passwords(lambda network: network.startswith("guesser")) as passwords:
        busy = BusyPasswords(passwords)
        for number in range(8):
            await busy.ask(f"guesser {number}")
        await busy.ask("ann")
        await busy.end()
    assert busy.order.index("ann") == THREADS


async def test_waiting_requests_of_one_network_are_bounded() -> None:
    with Passwords() as passwords:
        busy = BusyPasswords(passwords)
        for _ in range(MAX_WAITING + 3):
            await busy.ask("flood")
        answers = await busy.end()
    refused = [answer for answer in answers if isinstance(answer, Unavailable)]
    assert [answer.headers["Retry-After"] for answer in refused] == ["2", "2"]


async def test_request_whose_turn_does_not_come_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAIT_SECONDS", 0.01)
    with Passwords() as passwords:
        busy = BusyPasswords(passwords)
        for _ in range(2):
            await busy.ask("a")
        with pytest.raises(Unavailable):
            await busy.tasks[1]
        assert (await busy.end())[0] == "a"
