"""Forged tokens over HTTP: only a token that the service signed for this use is accepted."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from storage.model import User
from tests.web.conftest import OPERATOR_TOKEN, SETTINGS, Answer, Api, Service
from tests.web.people import TOKENS, new_user
from web.credentials.formats import RunTokens

AGENTS = "/api/cloud/agents/"
SECRET = SETTINGS.token_secret
KINDS_OF_NONE = ("none", "None", "NONE", "nOnE", "")
RSA_KEY = rsa.generate_private_key(65537, 2048)
PUBLIC_PEM = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
async def user(service: Service) -> User:
    return (await new_user(service))[0]


def claims_of(user: User, **changes: Any) -> dict[str, Any]:
    """Return the claims of a good token, with changes; None leaves a claim out."""
    now = int(datetime.now(UTC).timestamp())
    good = {"iss": "hostsvc", "aud": "user", "sub": str(user.id), "iat": now, "exp": now + 3600, "version": 1}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


def encode(value: Mapping[str, Any] | bytes) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def signed_by_hand(head: Mapping[str, Any], claims: Mapping[str, Any], secret: bytes) -> str:
    """Sign as HS256 whatever the head says."""
    text = f"{encode(head)}.{encode(claims)}"
    return f"{text}.{encode(hmac.digest(secret, text.encode(), hashlib.sha256))}"


def by_us(claims: Mapping[str, Any], **head: Any) -> str:
    """Sign with the secret of the service."""
    return signed_by_hand({"alg": "HS256", **head}, claims, SECRET.encode())


async def answer_to(service: Service, token: str, scheme: str = "Token") -> Answer:
    return await service.nobody.with_authorization(f"{scheme} {token}").get(AGENTS)


async def refuse(service: Service, *tokens: str) -> None:
    for token in tokens:
        answer = await answer_to(service, token)
        assert (answer.status, answer.body) == (401, {"detail": "Invalid token."}), token


async def test_token_made_like_ours_is_accepted(service: Service, user: User) -> None:
    assert (await answer_to(service, by_us(claims_of(user)))).status == 200


async def test_unsigned_token_is_refused(service: Service, user: User) -> None:
    claims = encode(claims_of(user))
    good = TOKENS.issue(user.id, 1, datetime.now(UTC))
    head, _, signature = good.split(".")
    await refuse(
        service,
        *(f"{encode({'alg': kind, 'typ': 'JWT'})}.{claims}." for kind in KINDS_OF_NONE),
        *(f"{encode({'alg': kind})}.{claims}.{signature}" for kind in KINDS_OF_NONE),
        f"{encode({'typ': 'JWT'})}.{claims}.",
        f"{head}.{claims}.",
        f"{head}.{claims}",
        f"{head}.{claims}.{signature}",
        good.rpartition(".")[0] + ".",
        good[:-2],
    )


async def test_token_of_swapped_algorithm_is_refused(service: Service, user: User) -> None:
    claims = claims_of(user)
    keys: dict[str, Any] = {
        "RS256": RSA_KEY,
        "PS256": RSA_KEY,
        "ES256": ec.generate_private_key(ec.SECP256R1()),
        "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    }
    await refuse(
        service,
        *(jwt.encode(claims, key, algorithm) for algorithm, key in keys.items()),
        *(jwt.encode(claims, SECRET + SECRET, algorithm) for algorithm in ("HS384", "HS512")),
        *(
            signed_by_hand({"alg": algorithm}, claims, SECRET.encode())
            for algorithm in ("RS256", "HS512", "x")
        ),
        signed_by_hand({"alg": "HS256"}, claims, PUBLIC_PEM),
    )


async def test_key_named_by_the_token_itself_is_not_used(service: Service, user: User) -> None:
    own = {"kty": "oct", "k": encode(b"k" * 48), "kid": "own", "alg": "HS256"}
    heads = (
        {"jwk": own},
        {"jku": "http://127.0.0.1:9/keys", "kid": "own"},
        {"x5u": "http://127.0.0.1:9/cert"},
        {"kid": "../../../../dev/null"},
        {"kid": "' UNION SELECT 'k"},
    )
    claims = claims_of(user)
    for head in heads:
        await refuse(
            service,
            signed_by_hand({"alg": "HS256", **head}, claims, b"k" * 48),
            signed_by_hand({"alg": "HS256", **head}, claims, b""),
        )
    await refuse(service, by_us(claims, crit=["x"], x=1))


async def test_token_of_foreign_claims_is_refused(service: Service, user: User) -> None:
    now = int(datetime.now(UTC).timestamp())
    wrong: tuple[dict[str, Any], ...] = (
        {"iss": "other"},
        {"iss": None},
        {"iss": ["other"]},
        {"aud": "run"},
        {"aud": "operator"},
        {"aud": None},
        {"aud": ["run", "operator"]},
        {"exp": now - 61},
        {"exp": None},
        {"exp": "never"},
        {"iat": now + 3600},
        {"iat": None},
        {"sub": None},
        {"sub": "1"},
        {"sub": str(uuid4())},
        {"sub": f"{{{user.id}}}"},
        {"sub": [str(user.id)]},
        {"version": None},
        {"version": 2},
        {"version": 0},
        {"version": "1"},
        {"version": [1]},
    )
    await refuse(service, *(by_us(claims_of(user, **change)) for change in wrong))


async def test_token_of_another_secret_is_refused(service: Service, user: User) -> None:
    secrets = (
        b"",
        b"secret",
        b"t" * 48,
        SECRET.encode()[:-1],
        SECRET.encode() + b"x",
        OPERATOR_TOKEN.encode(),
    )
    await refuse(service, *(signed_by_hand({"alg": "HS256"}, claims_of(user), secret) for secret in secrets))


async def test_each_credential_opens_only_its_own_interface(service: Service, api: Api, user: User) -> None:
    now, agent = datetime.now(UTC), await api.create_agent()
    run_id = (await api.post(f"{AGENTS}{agent['id']}/run/")).body["run"]
    of_run = RunTokens(SECRET).issue(UUID(run_id), now, timedelta(hours=1))
    of_user = TOKENS.issue(user.id, 1, now)
    key = (api.authorization or "").removeprefix("Bearer ")
    await refuse(service, of_run, key, OPERATOR_TOKEN)
    for credential in (of_user, OPERATOR_TOKEN, f"{OPERATOR_TOKEN} {key}", f"{key} "[:-2]):
        answer = await answer_to(service, credential, "Bearer")
        assert (answer.status, answer.body) == (401, {"detail": "Invalid API key."})
    for credential in (of_user, of_run, key):
        for scheme in ("Bearer", "Token"):
            answer = await service.nobody.with_authorization(f"{scheme} {credential}").get("/status/")
            assert (answer.status, answer.body) == (401, {"detail": "Invalid token."})


async def test_credential_in_the_query_or_a_cookie_is_ignored(service: Service, api: Api) -> None:
    key = (api.authorization or "").removeprefix("Bearer ")
    for path in (f"{AGENTS}?token={key}", f"{AGENTS}?access_token={key}", f"{AGENTS}?api_key={key}"):
        assert (await service.nobody.get(path)).status == 401
    answer = await service.nobody.request(
        "GET", AGENTS, headers={"Cookie": f"token={key}; Authorization={key}"}
    )
    assert answer.status == 401
