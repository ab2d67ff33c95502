"""An organization as a file: `hs export` and `hs apply`."""

import subprocess
import sys
from collections.abc import Iterator
from uuid import uuid4

import pytest
from hostsvc_client import Hostsvc
from hostsvc_client.manifest import ManifestError, apply, dump, export, load

from tests.clients.process import Service

FILE = """
adapters:
  Parcels:
    description: Finds parcels
    tools:
      find_parcel:
        description: Find a parcel by its number.
        parameters: {type: object, properties: {number: {type: string}}}
        url: https://parcels.example/find
        idempotent: true
        approval: first_use
templates:
  Support:
    default_model: builtin/inbox
    system_prompt: |
      You answer customers.
      Be brief.
    max_cost_usd_per_day: 2.5
    tool_call_secret: $SIGNING_SECRET
agents:
  Bo:
    parent: Ada
    template: Support
    quiet_hours: 22:00-07:00
  Ada:
    template: Support
    adapters: [Parcels]
    tags: [night, "007"]
    timezone: Europe/Vienna
    paused: true
    schedules:
      morning: {title: Tell me what waits, cron: 0 9 * * 1-5, only_if: waiting}
      once:
        title: "2026"
        every_seconds: 3600
        starts_at: "2126-01-01T09:00:00+01:00"
hooks:
  Pull requests:
    agent: Ada
    verify: github
    title: Pull request {{ number }}
    only_if: {properties: {action: {const: opened}}}
"""


@pytest.fixture
def organization(shared: Service) -> Iterator[Hostsvc]:
    """Yield a client of an organization of its own."""
    with Hostsvc(shared.url, shared.sign_up(f"{uuid4()}@example.org")) as client:
        yield client


def changes(client: Hostsvc, text: str, **options: bool) -> list[str]:
    return [str(change) for change, _ in apply(client, load(text), **options)]


def test_applied_file_is_exported_and_applied_without_changes(
    organization: Hostsvc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNING_SECRET", "known to us")
    planned = changes(organization, FILE, is_dry_run=True)
    assert list(organization.agents.list()) == []
    assert changes(organization, FILE) == planned
    assert planned[0] == "create adapter Parcels"
    assert len(planned) == 8
    assert changes(organization, FILE) == []
    exported = dump(export(organization))
    assert changes(organization, exported) == []
    assert dump(export(organization)) == exported
    monkeypatch.delenv("SIGNING_SECRET")  # of what is there, no secret is written
    assert changes(organization, FILE) == []
    assert "known to us" not in exported
    assert "whsec_" not in exported
    assert organization.templates.list().page()[0].tool_call_secret == "known to us"
    [bo] = organization.agents.list(name="Bo")
    assert bo.parent_name == "Ada"


@pytest.mark.parametrize("options", [{"is_dry_run": True}, {}])
def test_only_secrets_that_the_service_made_are_shown(
    organization: Hostsvc, monkeypatch: pytest.MonkeyPatch, options: dict[str, bool]
) -> None:
    monkeypatch.setenv("SIGNING_SECRET", "known to us")
    text = f'{FILE}    secret: $SIGNING_SECRET\n  Made: {{agent: Ada, verify: github, title: "x"}}\n'
    shown = [(change.name, secret) for change, secret in apply(organization, load(text), **options) if secret]
    assert [name for name, _ in shown] == ([] if options else ["Made"])
    assert "known to us" not in dict(shown).values()


def test_exported_organization_can_be_made_elsewhere(
    organization: Hostsvc, shared: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNING_SECRET", "known to us")
    changes(organization, FILE)
    exported = dump(export(organization))
    with Hostsvc(shared.url, shared.sign_up(f"{uuid4()}@example.org")) as other:
        changes(other, exported)
        assert dump(export(other)) == exported


def test_only_what_differs_is_changed(organization: Hostsvc) -> None:
    changes(organization, "agents: {Ada: {model: builtin/inbox, tags: [a], quiet_hours: null}}")
    [ada] = organization.agents.list()
    organization.agents.change(ada.id, system_prompt="Be brief.")
    assert changes(organization, "agents: {Ada: {model: builtin/inbox, tags: [b]}}") == [
        "change agent Ada: tags"
    ]
    changed = organization.agents.get(ada.id)
    assert (changed.tags, changed.system_prompt) == (["b"], "Be brief.")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agents: {Ada: {modell: x}}", "agents.Ada: no field modell; there are template, parent"),
        ("agent: {}", "not agent"),
        ("agents: [Ada]", "must be names"),
        ("agents: {No: {model: builtin/inbox}}", "agents: write the name False in quotes"),
        ('agents: {" Ada": {}}', "without spaces around it"),
        ("agents: {Ada: {schedules: [morning]}}", "agents.Ada.schedules must be names"),
        ("agents: {Ada: {schedules: {noon: {titel: x}}}}", "agents.Ada.schedules.noon: no field titel"),
        ("agents: {Ada: {template: 7}}", "there is no '7' among the templates"),
        ("agents: {Ada: {parent: [Bo]}}", "there is no 'Bo' among the agents"),
        ("agents: {", "expected the node content"),
        (
            "agents: {Ada: {schedules: {noon: {starts_at: 2027-01-05T09:00}}}}",
            r"agents\.Ada\.schedules\.noon: starts_at: give 2027-01-05T09:00 an offset",
        ),
        (
            "templates: {Clerk: {tool_call_secret: $NOPE}}",
            "templates.Clerk: the environment variable NOPE is",
        ),
        ("agents: {Ada: {template: Nothing}}", "there is no 'Nothing' among the templates"),
        ("agents: {A: {parent: B}, B: {parent: A}}", "make a cycle"),
        ("agents: {Ada: {model: builtin/inbox}}\nhooks: {Pulls: {titel: x}}", "hooks.Pulls: no field titel"),
    ],
)
def test_mistakes_are_named_before_anything_changes(organization: Hostsvc, text: str, message: str) -> None:
    with pytest.raises(ManifestError, match=message):
        changes(organization, text)
    assert list(organization.agents.list()) == []


def test_own_adapter_hides_a_shared_one_of_its_name(organization: Hostsvc, shared: Service) -> None:
    name = f"Parcels {uuid4()}"
    with Hostsvc(shared.url, shared.sign_up(f"{uuid4()}@example.org")) as other:
        public = other.adapters.create(name=name)
    text = f"agents: {{Ada: {{model: builtin/inbox, adapters: [{name}]}}}}"
    publish = [sys.executable, "-m", "hostsvc", "adapters", "publish", public.id]
    subprocess.run([*publish, "--config", shared.config], check=True, capture_output=True)
    changes(organization, text)
    assert organization.agents.list().page()[0].adapters == [public.id]
    assert list(export(organization)) == ["agents"]
    assert changes(organization, f"adapters: {{{name}: {{}}}}") == [f"create adapter {name}"]
    assert changes(organization, dump(export(organization))) == []
    assert export(organization)["agents"]["Ada"]["adapters"] == [public.id]
    assert changes(organization, text) == ["change agent Ada: adapters"]
    assert export(organization)["agents"]["Ada"]["adapters"] == [name]


def test_name_that_two_things_have_is_refused(organization: Hostsvc) -> None:
    ids = [organization.agents.create(name="Ada", model="builtin/inbox").id for _ in range(2)]
    match = f"several agents are named 'Ada': rename {ids[1]} or {ids[0]}"
    with pytest.raises(ManifestError, match=match):
        changes(organization, "agents: {Ada: {tags: [a]}}")
    assert changes(organization, "agents: {Bo: {model: builtin/inbox}}") == ["create agent Bo"]


def test_refusal_of_the_service_names_the_place_in_the_file(organization: Hostsvc) -> None:
    text = "agents: {Ada: {model: builtin/inbox, schedules: {noon: {title: Eat, cron: 0 99 * * *}}}}"
    with pytest.raises(ManifestError, match=r"^agents\.Ada\.schedules\.noon: 400: cron: "):
        changes(organization, text)
    assert changes(organization, text, is_dry_run=True) == ["create schedule noon"]
