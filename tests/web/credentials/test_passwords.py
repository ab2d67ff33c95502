"""Hashing and verifying passwords."""

from web.credentials.passwords import NOBODYS_HASH, Passwords


async def test_password_is_verified_by_its_own_hash() -> None:
    with Passwords() as passwords:
        password_hash = await passwords.hash("correct horse")
        assert "correct horse" not in password_hash
        assert await passwords.verify("correct horse", password_hash)
        assert not await passwords.verify("correct house", password_hash)


async def test_missing_or_broken_hash_never_verifies() -> None:
    with Passwords() as passwords:
        assert not await passwords.verify("correct horse", None)
        assert not await passwords.verify("", "!")


async def test_missing_hash_costs_as_much_as_real_one() -> None:
    with Passwords() as passwords:
        parameters = (await passwords.hash("correct horse")).rsplit("$", 2)[0]
    assert NOBODYS_HASH.startswith(parameters)
