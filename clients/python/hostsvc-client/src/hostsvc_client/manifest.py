"""Templates, adapters with their tools, agents with their schedules, and hooks as one YAML file.

A file refers to things by their names. What it leaves out stays as it is.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import yaml

from hostsvc_client import inputs
from hostsvc_client._operations import DEFAULTS
from hostsvc_client._sync_api import Hostsvc
from hostsvc_client.errors import HostsvcError, Refused

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of thing in the file, and what the API calls it."""

    key: str
    body: str
    owner: str = ""
    """The field that refers to the thing that this one stands under in the file."""
    references: Mapping[str, str] = field(default_factory=dict)
    hidden: str = ""
    """The field with a secret, which is written when the thing is created, and never exported."""
    children: tuple[Kind, ...] = ()

    @property
    def fields(self) -> list[str]:
        """Return the fields that a file may have."""
        fields = getattr(inputs, self.body).__annotations__
        return [name for name in fields if name not in STATE | {"name", self.owner}]


STATE = frozenset(
    {"status", "sleep_until", "run_started_at", "last_wake_reason", "last_wake_interrupted_sleep_until"}
)
KINDS = (
    Kind("adapters", "AdapterBody", children=(Kind("tools", "ToolBody", owner="adapter"),)),
    Kind("templates", "TemplateBody", hidden="tool_call_secret"),
    Kind(
        "agents",
        "AgentBody",
        references={"template": "templates", "parent": "agents", "adapters": "adapters"},
        children=(Kind("schedules", "NewScheduleBody", owner="agent"),),
    ),
    Kind("hooks", "HookBody", references={"agent": "agents", "template": "templates"}, hidden="secret"),
)
SHARED = "shared"  # stands for the owner of the adapters of other organizations


class ManifestError(HostsvcError):
    """The file cannot be applied, or the organization cannot be written as a file."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Times stay texts, as the API takes them."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def load(text: str) -> Json:
    """Return the content of a file."""
    try:
        content = yaml.load(text, _Loader) or {}  # noqa: S506 -- a safe loader
    except yaml.YAMLError as error:
        raise ManifestError(str(error)) from None
    names = [kind.key for kind in KINDS]
    for name in content if isinstance(content, dict) else ["a list"]:
        if name not in names:
            raise ManifestError(f"a file has {', '.join(names)}, not {name}")
    return dict(content)


def dump(content: Json) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


def export(client: Hostsvc) -> Json:
    """Return the organization as a file, without what is as by default, and without secrets."""
    present = Present.read(client)
    return {kind.key: content for kind in KINDS if (content := dict(present.written(kind, "")))}


def apply(client: Hostsvc, content: Json, *, is_dry_run: bool = False) -> Iterator[tuple[Change, str | None]]:
    """Yield each change that the file asks for, after making it, with the secret that the service made.

    Raise ManifestError, before any change, for what is wrong with the file itself.
    """
    present = Present.read(client)
    planned = list(replace(present, is_dry_run=True, found=deepcopy(present.found)).changed(content))
    yield from planned if is_dry_run else present.changed(content)


@dataclass
class Change:
    """A step that makes the organization what the file says."""

    kind: Kind
    name: str
    id: str | None
    fields: Json

    def __str__(self) -> str:
        what = f"{self.kind.key.removesuffix('s')} {self.name}"
        return f"change {what}: {', '.join(self.fields)}" if self.id else f"create {what}"


@dataclass
class Present:
    """What the organization has, by kind, and by owner and name, which several things may have."""

    client: Hostsvc
    found: dict[str, dict[tuple[str, str], list[Json]]]
    is_dry_run: bool = False

    @classmethod
    def read(cls, client: Hostsvc) -> Present:
        own = {organization.id for organization in client.organizations.list()}
        present = cls(client, {})
        for kind in [each for one in KINDS for each in (one, *one.children)]:
            found = present.found[kind.key] = {}
            for answer in getattr(client, kind.key).list():
                item = answer.to_dict()
                is_shared = kind.key == "adapters" and item["organization_id"] not in own
                owner = SHARED if is_shared else item.get(kind.owner, "")
                found.setdefault((owner, item["name"]), []).append(item)
        return present

    def get(self, key: str, owner: str, name: str) -> Json | None:
        """Return what has this name, or None. Raise ManifestError if the name does not tell."""
        items = self.found[key].get((owner, name), [])
        if len(items) > 1:
            which = " or ".join(str(item["id"]) for item in items)
            raise ManifestError(f"several {key} are named {name!r}: rename {which}")
        return items[0] if items else None

    def id_of(self, key: str, name: str) -> str:
        """Return the id of what a file refers to by name. One's own adapter hides a shared one."""
        item = self.get(key, "", name) or self.get(key, SHARED, name)
        if item is None and not re.fullmatch("[0-9a-f-]{36}", name):  # an id stands for what is archived
            raise ManifestError(f"there is no {name!r} among the {key}")
        return str(item["id"]) if item else name

    def name_of(self, key: str, id_: str) -> str:
        """Return the name that a file may use for this id, or else the id."""
        for (owner, name), items in self.found[key].items():
            is_hidden = owner == SHARED and ("", name) in self.found[key]
            if not is_hidden and any(item["id"] == id_ for item in items):
                return name
        return id_

    def written(self, kind: Kind, owner: str) -> Iterator[tuple[str, Json]]:
        """Yield the name and the fields of each thing of a kind, as a file has them."""
        for its_owner, name in reversed(self.found[kind.key]):
            if its_owner != owner or not name:
                continue
            item = self.get(kind.key, owner, name) or {}
            fields, defaults = {}, {"paused": False, **DEFAULTS[kind.body]}
            for one in kind.fields:
                if one != kind.hidden and one in item and item[one] != defaults.get(one):
                    key = kind.references.get(one)
                    fields[one] = _mapped(item[one], partial(self.name_of, key)) if key else item[one]
            for child in kind.children:
                if below := dict(self.written(child, item["id"])):
                    fields[child.key] = below
            yield name, fields

    def changed(self, content: Json) -> Iterator[tuple[Change, str | None]]:
        """Yield each change, after making it."""
        for kind in KINDS:
            for name, given in _parents_first(_things(content, kind, ())):
                yield from self._applied(kind, "", (kind.key, name), given)

    def _applied(
        self, kind: Kind, owner: str, path: tuple[str, ...], given: Json
    ) -> Iterator[tuple[Change, str | None]]:
        below = {child.key for child in kind.children}
        wanted = {one: value for one, value in given.items() if one not in below}
        try:
            item = self.get(kind.key, owner, path[-1])
            fields = self._differing(kind, wanted, item)
            if item is None:
                fields = {"name": path[-1], **({kind.owner: owner} if kind.owner else {}), **fields}
            change = Change(kind, path[-1], item["id"] if item else None, fields)
            made = self._made(change, item or {})
        except (ManifestError, Refused) as error:
            raise ManifestError(f"{'.'.join(path)}: {error}") from None
        if fields:
            self.found[kind.key][owner, path[-1]] = [made]
            yield change, None if change.id or kind.hidden in fields else made.get(kind.hidden)
        for child in kind.children:
            for name, its_fields in _things(given, child, path).items():
                yield from self._applied(child, made["id"], (*path, child.key, name), its_fields)

    def _made(self, change: Change, item: Json) -> Json:
        """Make the change, unless it is only planned; return what there is then."""
        if self.is_dry_run or not change.fields:
            return {"id": f"the new {change.name}", **item, **change.fields}
        resource = getattr(self.client, change.kind.key)
        call = partial(resource.change, change.id) if change.id else resource.create
        return dict(call(**change.fields).to_dict())

    def _differing(self, kind: Kind, wanted: Json, item: Json | None) -> Json:
        """Return the fields to write: all of a new thing, and of another one those that differ."""
        if unknown := wanted.keys() - {*kind.fields}:
            raise ManifestError(f"no field {', '.join(sorted(unknown))}; there are {', '.join(kind.fields)}")
        fields: Json = {}
        for one, value in wanted.items():
            if key := kind.references.get(one):
                value = _mapped(value, partial(self.id_of, key))
            comparable = _comparable(one, value)
            if item is None:
                fields[one] = _secret(value) if one == kind.hidden else value
            elif one != kind.hidden and one in item and comparable != _comparable(one, item[one]):
                fields[one] = value
        return fields


def _things(content: Json, kind: Kind, path: tuple[str, ...]) -> Json:
    """Return the fields of all things of a kind by name."""
    things, where = content.get(kind.key) or {}, ".".join((*path, kind.key))
    if not isinstance(things, dict) or not all(isinstance(one or {}, dict) for one in things.values()):
        raise ManifestError(f"{where} must be names, each with its fields below")
    for name in things:
        if not isinstance(name, str) or name != name.strip():  # YAML takes `no` for False
            raise ManifestError(f"{where}: write the name {name!r} in quotes, without spaces around it")
    return {name: fields or {} for name, fields in things.items()}


def _parents_first(left: Json) -> Iterator[tuple[str, Json]]:
    while left:
        ready = [name for name, fields in left.items() if fields.get("parent") not in [*left]]
        if not ready:
            raise ManifestError(f"the parents of {', '.join(left)} make a cycle")
        yield from [(name, left.pop(name)) for name in ready]


def _mapped(value: Any, convert: Callable[[str], str]) -> Any:
    return [convert(str(one)) for one in value] if isinstance(value, list) else value and convert(str(value))


def _secret(value: Any) -> Any:
    """Return a secret, which may be written as `$` and the name of an environment variable."""
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    if not os.environ.get(value[1:]):
        raise ManifestError(f"the environment variable {value[1:]} is not set")
    return os.environ[value[1:]]


def _comparable(name: str, value: Any) -> Any:
    """Return the value of a field, or its instant, which may be written in several ways."""
    if not name.endswith("_at") or not isinstance(value, str):
        return value
    try:
        instant = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return value  # the service says what is wrong with it
    if instant.tzinfo is None:  # another time wherever the agent lives
        raise ManifestError(f"{name}: give {value} an offset, such as {value}+01:00 or {value}Z")
    return instant
