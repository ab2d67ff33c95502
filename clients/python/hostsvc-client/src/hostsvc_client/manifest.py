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
from hostsvc_client.errors import HostsvcError

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
    unwritten: frozenset[str] = frozenset()
    children: tuple[Kind, ...] = ()

    @property
    def fields(self) -> list[str]:
        """Return the fields that a file may have."""
        fields = getattr(inputs, self.body).__annotations__
        return [name for name in fields if name not in self.unwritten | {"name", self.owner}]


STATE = frozenset(
    {"status", "sleep_until", "run_started_at", "last_wake_reason", "last_wake_interrupted_sleep_until"}
)
TOOLS = Kind("tools", "ToolBody", owner="adapter")
SCHEDULES = Kind("schedules", "NewScheduleBody", owner="agent")
KINDS = (
    Kind("adapters", "AdapterBody", children=(TOOLS,)),
    Kind("templates", "TemplateBody", hidden="tool_call_secret"),
    Kind(
        "agents",
        "AgentBody",
        references={"template": "templates", "parent": "agents", "adapters": "adapters"},
        unwritten=STATE,
        children=(SCHEDULES,),
    ),
    Kind("hooks", "HookBody", references={"agent": "agents", "template": "templates"}, hidden="secret"),
)


class ManifestError(HostsvcError):
    """The file cannot be applied, or the organization cannot be written as a file."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Times stay texts, as the API takes them."""


_Loader.yaml_implicit_resolvers = {
    first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load(text: str) -> Json:
    """Return the content of a file."""
    try:
        content = yaml.load(text, _Loader) or {}  # noqa: S506 -- a safe loader
    except yaml.YAMLError as error:
        raise ManifestError(str(error)) from None
    unknown = set(content) - {kind.key for kind in KINDS} if isinstance(content, dict) else {"a list"}
    if unknown:
        raise ManifestError(f"a file has {', '.join(kind.key for kind in KINDS)}, not {', '.join(unknown)}")
    return dict(content)


def dump(content: Json) -> str:
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100))


@dataclass
class Present:
    """What the organization has, by kind, owner and name."""

    client: Hostsvc
    found: dict[str, dict[tuple[str, str], Json]] = field(default_factory=dict)
    shared: dict[str, Json] = field(default_factory=dict)
    """The adapters of other organizations, by name."""
    twice: set[tuple[str, str, str]] = field(default_factory=set)

    def read(self) -> Present:
        own = {organization.id for organization in self.client.organizations.list()}
        for kind in (*KINDS, TOOLS, SCHEDULES):
            found = self.found[kind.key] = {}
            for answer in getattr(self.client, kind.key).list():
                item = answer.to_dict()
                place = item.get(kind.owner, ""), item["name"]
                if kind.key == "adapters" and item["organization_id"] not in own:
                    self.shared[item["name"]] = item
                elif place in found:
                    self.twice.add((kind.key, *place))
                else:
                    found[place] = item
        return self

    def get(self, key: str, owner: str, name: str) -> Json | None:
        """Return what has this name, or None. Raise ManifestError if the name does not tell."""
        if name and (key, owner, name) in self.twice:
            raise ManifestError(f"two of the {key} are named {name!r}: rename one")
        return self.found[key].get((owner, name))

    def id_of(self, key: str, name: str) -> str:
        """Return the id of what a file refers to by name."""
        item = self.get(key, "", name) or self._by_name(key).get(name)
        if item is None and not re.fullmatch("[0-9a-f-]{36}", name):  # an id stands for what is archived
            raise ManifestError(f"there is no {name!r} among the {key}")
        return str(item["id"]) if item else name

    def name_of(self, key: str, id_: str) -> str:
        return next((name for name, item in self._by_name(key).items() if item["id"] == id_), id_)

    def _by_name(self, key: str) -> Json:
        """Return what a file may refer to. A shared adapter is hidden by one's own of its name."""
        own = {name: item for (_, name), item in self.found[key].items()}
        return {**self.shared, **own} if key == "adapters" else own


def _mapped(value: Any, convert: Callable[[str], str]) -> Any:
    return [convert(str(one)) for one in value] if isinstance(value, list) else value and convert(str(value))


def export(client: Hostsvc) -> Json:
    """Return the organization as a file, without what is as by default, and without secrets."""
    present = Present(client).read()
    return {kind.key: content for kind in KINDS if (content := dict(_written(present, kind, "")))}


def _written(present: Present, kind: Kind, owner: str) -> Iterator[tuple[str, Json]]:
    for its_owner, name in reversed(present.found[kind.key]):
        item = present.get(kind.key, its_owner, name) or {}
        if its_owner != owner or not name:
            continue
        fields, defaults = {}, {"paused": False, **DEFAULTS[kind.body]}
        for one in kind.fields:
            if one == kind.hidden or one not in item or item[one] == defaults.get(one):
                continue
            key = kind.references.get(one)
            fields[one] = _mapped(item[one], partial(present.name_of, key)) if key else item[one]
        for child in kind.children:
            if below := dict(_written(present, child, item["id"])):
                fields[child.key] = below
        yield name, fields


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


def apply(client: Hostsvc, content: Json, *, is_dry_run: bool = False) -> Iterator[tuple[Change, str | None]]:
    """Yield each change that the file asks for, after making it, with the secret that the service made.

    Raise ManifestError, before any change, for what is wrong with the file itself.
    """
    present = Present(client).read()
    planned = list(_steps(replace(present, found=deepcopy(present.found)), content, is_dry_run=True))
    yield from planned if is_dry_run else _steps(present, content, is_dry_run=False)


def _steps(present: Present, content: Json, *, is_dry_run: bool) -> Iterator[tuple[Change, str | None]]:
    for kind in KINDS:
        for name, fields in _parents_first(_things(content, kind)):
            yield from _applied(present, kind, "", name, fields, is_dry_run)


def _things(content: Json, kind: Kind) -> Json:
    """Return the fields of all things of a kind by name."""
    things = content.get(kind.key) or {}
    if not isinstance(things, dict) or not all(isinstance(one or {}, dict) for one in things.values()):
        raise ManifestError(f"{kind.key} must be names, each with its fields below")
    for name in things:
        if not isinstance(name, str):  # YAML takes `no` for False
            raise ManifestError(f"{kind.key}: write the name that YAML takes for {name!r} in quotes")
    return {name: fields or {} for name, fields in things.items()}


def _parents_first(left: Json) -> Iterator[tuple[str, Json]]:
    while left:
        ready = [name for name, fields in left.items() if fields.get("parent") not in [*left]]
        if not ready:
            raise ManifestError(f"the parents of {', '.join(left)} make a cycle")
        yield from [(name, left.pop(name)) for name in ready]


def _applied(
    present: Present, kind: Kind, owner: str, name: str, given: Json, is_dry_run: bool
) -> Iterator[tuple[Change, str | None]]:
    below = {child.key for child in kind.children}
    wanted = {one: value for one, value in given.items() if one not in below}
    if unknown := wanted.keys() - set(kind.fields):
        raise ManifestError(f"{kind.key} have no {', '.join(sorted(unknown))} ({name})")
    item = present.get(kind.key, owner, name)
    fields = _differing(present, kind, wanted, item)
    if item is None or fields:
        if item is None:
            fields = {"name": name, **({kind.owner: owner} if kind.owner else {}), **fields}
        change = Change(kind, name, item["id"] if item else None, fields)
        resource = getattr(present.client, kind.key)
        if is_dry_run:
            item = {"id": f"the new {name}", **(item or {}), **fields}
        else:
            answer = resource.change(change.id, **fields) if change.id else resource.create(**fields)
            item = answer.to_dict()
        present.found[kind.key][owner, name] = item
        yield change, None if change.id or kind.hidden in fields else item.get(kind.hidden)
    for child in kind.children:
        for its_name, its_fields in _things(given, child).items():
            yield from _applied(present, child, str(item["id"]), its_name, its_fields, is_dry_run)


def _differing(present: Present, kind: Kind, wanted: Json, item: Json | None) -> Json:
    """Return the fields to write: all of a new thing, and of another one those that differ."""
    fields: Json = {}
    for one, value in wanted.items():
        key = kind.references.get(one)
        if key:
            value = _mapped(value, partial(present.id_of, key))
        if one == kind.hidden and isinstance(value, str) and value.startswith("$"):
            value = os.environ.get(value[1:])
            if not value:
                raise ManifestError(f"the environment variable of {one} of the {kind.key} is not set")
        if item is None or (one in item and one != kind.hidden and not _same(value, item[one])):
            fields[one] = value
    return fields


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) or (_instant(one) is not None and _instant(one) == _instant(other))


def _instant(value: Any) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
    except (AttributeError, ValueError):
        return None
