"""Attacks on identity: forged tokens, and fields that only the service may set."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from hashlib import sha256, sha512
from hmac import digest
from time import time
from typing import Any
from uuid import uuid4

from tests.acceptance.client import Json
from tests.attack.findings import Finding, none_of, unmeasured
from tests.attack.target import AGENTS, PASSWORD, SIGN_UP, Target

ORGANIZATIONS = "/api/organizations/organizations/"
DAY = 86_400
REFUSED = frozenset({401, 429})
GUESSES = ("", "secret", "hostsvc", "change-me", "0" * 32)
HASHES = {"HS256": sha256, "HS512": sha512}


async def forged_tokens(target: Target) -> list[Finding]:
    """Call with user tokens whose algorithm, signature or claims are forged."""
    header, claims = _parts(target.attacker.token)
    tokens = dict(_unsigned(header, claims, target.attacker.token))
    let_in = [name for name, token in tokens.items() if await _opens(target, token)]
    findings = [none_of("forged tokens that were accepted", let_in, len(tokens))]
    subject = "properly signed tokens with wrong claims that were accepted"
    if not target.token_secret:
        return [*findings, unmeasured(subject, "no token secret")]
    signed = dict(_with_wrong_claims(header, claims, target.token_secret))
    assert await _opens(target, _sign(header, claims, target.token_secret)), "the token secret is another one"
    let_in = [name for name, token in signed.items() if await _opens(target, token)]
    return [*findings, none_of(subject, let_in, len(signed))]


async def _opens(target: Target, token: str) -> bool:
    """Return whether a token opens any route under any scheme."""
    for scheme in ("Token", "Bearer"):
        headers = {"Authorization": f"{scheme} {token}"}
        if (await target.send("GET", ORGANIZATIONS, headers=headers)).status not in REFUSED:
            return True
    return False


def _unsigned(header: Json, claims: Json, valid: str) -> Iterator[tuple[str, str]]:
    """Yield tokens that the service has not signed, by what is wrong with them."""
    body, signature = valid.rsplit(".", 1)
    for none in ("none", "None", "NONE", "nOnE", ""):
        yield f"alg {none!r}", f"{_encode({**header, 'alg': none})}.{_encode(claims)}."
        yield f"alg {none!r} signed", f"{_encode({**header, 'alg': none})}.{_encode(claims)}.{signature}"
    for swapped in ("HS384", "HS512", "RS256", "ES256", "PS256", "EdDSA"):
        yield f"alg {swapped}", f"{_encode({**header, 'alg': swapped})}.{_encode(claims)}.{signature}"
    for guess in GUESSES:
        yield f"secret {guess!r}", _sign(header, claims, guess)
    yield "no signature", f"{body}."
    yield "no third part", body
    yield "other signature", f"{body}.{signature[::-1]}"
    for name, value in (
        ("sub", str(uuid4())),
        ("version", 2),
        ("exp", int(time()) + 100 * DAY),
        ("aud", "run"),
    ):
        yield f"other {name}", f"{_encode(header)}.{_encode({**claims, name: value})}.{signature}"
    for key in ({"jwk": {"kty": "oct", "k": ""}}, {"jku": "https://example.org/"}, {"kid": "../../dev/null"}):
        yield f"header {next(iter(key))}", _sign({**header, **key}, claims, "")


def _with_wrong_claims(header: Json, claims: Json, secret: str) -> Iterator[tuple[str, str]]:
    """Yield tokens that are signed with the right secret and must still be refused."""
    now = int(time())
    changes: dict[str, Json] = {
        "expired": {"iat": now - 2 * DAY, "exp": now - DAY},
        "issued tomorrow": {"iat": now + DAY, "exp": now + 2 * DAY},
        "foreign issuer": {"iss": "https://example.org"},
        "for runs": {"aud": "run"},
        "for several": {"aud": ["run", "operator"]},
        "unknown user": {"sub": str(uuid4())},
        "older version": {"version": 0},
        "version is a text": {"version": "1"},
        "subject is no id": {"sub": "admin"},
        "never expires": {"exp": None},
    }
    for name, change in changes.items():
        yield name, _sign(header, {**claims, **change}, secret)
    for claim in ("iss", "aud", "sub", "iat", "exp", "version"):
        yield f"without {claim}", _sign(header, {k: v for k, v in claims.items() if k != claim}, secret)
    yield "HS512", _sign({**header, "alg": "HS512"}, claims, secret)


def _sign(header: Json, claims: Json, secret: str) -> str:
    body = f"{_encode(header)}.{_encode(claims)}"
    signature = digest(secret.encode(), body.encode(), HASHES[header["alg"]])
    return f"{body}.{_base64(signature)}"


def _encode(value: Json) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _parts(token: str) -> tuple[Json, Json]:
    """Return the header and the claims of a token."""
    header, claims = (json.loads(urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    return header, claims


async def mass_assignment(target: Target) -> list[Finding]:
    """Set fields that only the service may set, in every body that takes an object."""
    attacker, victim = target.attacker, target.victim
    forged: dict[str, Any] = {
        "id": str(uuid4()),
        "organization": victim.organization,
        "organization_id": victim.organization,
        "created_at": "2001-01-01T00:00:00Z",
        "is_admin": True,
        "role": "owner",
        "token_version": 99,
        "is_archived": True,
        "cleared_at": "2001-01-01T00:00:00Z",
        "next_due_at": "2001-01-01T00:00:00Z",
    }
    bodies: dict[str, Json] = {
        SIGN_UP: {
            "email": f"{uuid4().hex}@example.org",
            "password": PASSWORD,
            "organization_name": "Mass assignment",
        },
        AGENTS: {"name": "Mass", "model": "builtin/inbox"},
        "/api/templates/": {"name": "Mass", "default_model": "builtin/inbox"},
        "/api/defaults/documents/": {"title": "Mass"},
        "/api/defaults/notifications/": {"agent": attacker.agent, "title": "Mass", "priority": "low"},
        "/api/organizations/api-keys/": {"name": "Mass"},
    }
    taken = []
    for path, body in bodies.items():
        headers = {} if path == SIGN_UP else {"Authorization": attacker.key.authorization}
        answer = await target.send("POST", path, json={**forged, **body}, headers=headers)
        taken += [f"POST {path} {name}" for name in _taken(answer.json(), forged)]
    changes = {
        AGENTS + attacker.agent + "/": "agent",
        ORGANIZATIONS + attacker.organization + "/": "organization",
    }
    for path in changes:
        answer = await target.as_attacker("PATCH", path, json=forged)
        taken += [f"PATCH {path} {name}" for name in _taken(answer.json(), forged)]
    return [none_of("fields that a caller could set", taken, len(forged) * (len(bodies) + len(changes)))]


def _taken(answer: Any, forged: Json) -> list[str]:
    """Return the forged fields whose values an answer shows, at any depth."""
    if isinstance(answer, list):
        return [name for each in answer for name in _taken(each, forged)]
    if not isinstance(answer, dict):
        return []
    shown = [name for name, value in forged.items() if name in answer and answer[name] == value]
    # The owner of an organization that has just been signed up is its owner.
    own = [name for name in shown if name != "role"]
    return own + [name for value in answer.values() for name in _taken(value, forged)]
