"""Organizations to send requests in, and the requests, filled in from the table."""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from storage.model import Organization, Role, User
from tests.contract.requests_by_route import MARK, TEMPLATE, THINGS, UNIQUE, One, Row, row_of
from tests.web.conftest import OPERATOR_TOKEN, Api, Service
from tests.web.people import as_user, new_user, staff
from web.credentials.formats import hash_secret
from web.routes import Access, Route

DELIVERIES = "/api/organizations/webhook-deliveries/"


@dataclass(frozen=True, slots=True)
class Place:
    """An organization with its mark in all of its texts."""

    service: Service
    mark: str
    organization: Organization
    owner: User
    key: Api

    async def member(self, role: Role = Role.MEMBER) -> Api:
        """Return a client of another member."""
        client, _ = await staff(self.service, self.organization, role)
        return client


async def new_place(service: Service) -> Place:
    mark = f"mark{secrets.token_hex(8)}"
    owner, organization = await new_user(service, f"{mark}@example.org", mark)
    key = await as_user(service, owner).create("/api/organizations/api-keys/", name=mark)
    place = Place(
        service, mark, organization, owner, service.nobody.with_authorization(f"Bearer {key['key']}")
    )
    path = f"/api/organizations/organizations/{organization.id}/"
    assert (await place.key.patch(path, {"name": mark})).status == 200
    return place


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a route as it can be sent, by its intended caller."""

    route: Route
    path: str
    body: dict[str, Any] | None
    authorization: str | None = field(repr=False)

    def by(self, client: Api) -> "Request":
        return replace(self, authorization=client.authorization)

    def saying(self, **more: Any) -> "Request":
        """Return the request with more fields in its body."""
        return replace(self, body={**(self.body or {}), **more})


class Making:
    """The objects of one request, created as it names them."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._made: dict[tuple[str, str], Any] = {}

    def take(self, one: One, value: str) -> None:
        """Use this one from here on, instead of a new one."""
        self._made[one.kind, one.which] = {"id": value}

    async def request(self, route: Route, instead: Mapping[One, str] | None = None) -> Request:
        """Fill in a request. `instead` has the ids that its body names instead of the usual objects."""
        row = row_of(route)
        for one in sorted(named_in(row), key=repr):
            await self.fill(one)
        path = route.path
        for name, named in row.path.items():
            path = path.replace(f"{{{name}}}", str(await self.fill(named)))
        for one, value in (instead or {}).items():
            self.take(one, value)
        body = None if row.body is None else await self.fill(row.body)
        return Request(route, path, body, await self._authorization(route, row))

    async def _authorization(self, route: Route, row: Row) -> str | None:
        if row.by is not None:
            return f"Token {await self.fill(row.by)}"
        if route.access is Access.CALLERS:
            return self._place.key.authorization
        return f"Bearer {OPERATOR_TOKEN}" if route.access is Access.OPERATORS else None

    async def fill(self, value: Any) -> Any:
        """Return what a value of the table stands for."""
        match value:
            case One():
                shown = await self._thing(value)
                for step in value.shown.split("."):
                    shown = shown[step]
                return shown
            case str():
                return value.replace(MARK, self._place.mark).replace(UNIQUE, secrets.token_hex(8))
            case list():
                return [await self.fill(item) for item in value]
            case dict():
                return {name: await self.fill(item) for name, item in value.items()}
            case _:
                return value

    async def _thing(self, one: One) -> Any:
        name = (one.kind, one.which)
        if name not in self._made:
            self._made[name] = await self._make(one.kind)
        return self._made[name]

    async def _make(self, kind: str) -> Any:
        place = self._place
        match kind:
            case "organization":
                return {"id": str(place.organization.id)}
            case "membership":
                _, membership_id = await staff(place.service, place.organization, Role.MEMBER)
                return {"id": membership_id}
            case "run":
                agent_id = await self.fill(One("agent"))
                answer = await place.key.post(f"/api/cloud/agents/{agent_id}/run/")
                assert answer.body["run"] is not None, "all run slots are taken: too many runs in one module"
                return {"id": answer.body["run"]}
            case "webhook_delivery":
                template = await self.fill(TEMPLATE)
                path, body = THINGS["agent"]
                told = await place.key.create(path, **await self.fill(body), template=template)
                return (await place.key.get(f"{DELIVERIES}?agent={told['id']}")).body[0]
            case "reset_code":
                return {"code": await self._reset_code()}
            case _:
                path, body = THINGS[kind]
                return await place.key.create(path, **await self.fill(body))

    async def _reset_code(self) -> str:
        email, code = await self.fill(One("account", "user.email")), secrets.token_urlsafe()
        later = datetime.now(UTC) + timedelta(hours=1)
        assert await self._place.service.storage.accounts.keep_reset_code(email, hash_secret(code), later)
        return code


async def make(place: Place, route: Route) -> Request:
    """Return a valid request of the route, with objects of its own."""
    return await Making(place).request(route)


def named_in(row: Row) -> set[One]:
    """Return what a request of the row names by id, in its path or body."""
    return named_in_path(row) | named_in_body(row)


def named_in_path(row: Row) -> set[One]:
    return set(_ones(list(row.path.values())))


def named_in_body(row: Row) -> set[One]:
    return {one for one in _ones(row.body) if one.shown == "id"}


def _ones(value: Any) -> Iterator[One]:
    match value:
        case One():
            yield value
        case list():
            for item in value:
                yield from _ones(item)
        case dict():
            yield from _ones(list(value.values()))
