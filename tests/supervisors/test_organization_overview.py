"""The overview of organizations: its phases and its sentences."""

import pytest

from storage.agents.overviews import ALL_PHASES, FailingWebhook, PausedOrganization, TroubledAgent
from storage.ids import new_id
from supervisors.organization_overview import (
    WORDS,
    because_of_reminder,
    organization_sentence,
    shown_phases,
    why_failing,
    why_forgotten,
    why_paused,
    why_uncleared,
)
from supervisors.policy.phases import ShownPhase
from tests.storage.factories import NOW


def test_agents_that_are_in_no_other_phase_are_asleep() -> None:
    counts = [(False, "holding", 2), (False, "archived", 1), (False, ALL_PHASES, 10)]
    assert shown_phases(counts) == {ShownPhase.HOLDING: 2, ShownPhase.ASLEEP: 7, ShownPhase.ARCHIVED: 1}


def test_pause_holds_agents_that_neither_run_nor_are_archived() -> None:
    counts = [(True, "quarantined", 2), (True, "stopping", 1), (True, "archived", 3), (True, ALL_PHASES, 10)]
    assert shown_phases(counts) == {
        ShownPhase.STOPPING: 1,
        ShownPhase.PAUSED: 6,
        ShownPhase.ARCHIVED: 3,
    }


def test_count_of_all_that_is_older_leaves_no_negative_number() -> None:
    assert shown_phases([(False, ALL_PHASES, 1), (False, "running", 2)]) == {ShownPhase.RUNNING: 2}


AGENT = TroubledAgent(new_id(), "Rosa", "UTC", new_id(), NOW)


@pytest.mark.parametrize(
    ("phases", "attention", "sentence"),
    [
        ({}, 0, "There are no agents yet."),
        ({}, 1, "There are no agents yet. 1 thing needs a person."),
        ({ShownPhase.ASLEEP: 1}, 0, "The only agent is asleep. Nothing needs a person."),
        ({ShownPhase.PAUSED: 1200}, 2, "All 1,200 agents are paused. 2 things need a person."),
        (
            {ShownPhase.ASLEEP: 9, ShownPhase.HOLDING: 1, ShownPhase.RUNNING: 2, ShownPhase.ARCHIVED: 0},
            0,
            "12 agents: 2 running, 1 holding and 9 asleep. Nothing needs a person.",
        ),
        (
            {ShownPhase.QUEUED: 1, ShownPhase.OVER_BUDGET: 1},
            1,
            "2 agents: 1 waiting for a run slot and 1 over budget. 1 thing needs a person.",
        ),
    ],
)
def test_organization_sentence_counts_agents_and_trouble(
    phases: dict[ShownPhase, int], attention: int, sentence: str
) -> None:
    assert organization_sentence(phases, attention) == sentence


def test_every_phase_has_a_word() -> None:
    assert set(WORDS) == set(ShownPhase)


def test_uncleared_and_forgotten_agents_are_explained() -> None:
    assert why_uncleared(AGENT, "It runs.") == (
        "A high-priority notification has been uncleared since 2126-11-21 09:00 UTC. It runs."
    )
    assert why_forgotten(AGENT, "It sleeps.") == (
        "It has been due since 2126-11-21 09:00 UTC, and nothing has started it. It sleeps."
    )


def test_pause_is_explained_with_its_begin_if_known() -> None:
    ending = "; none of its agents starts until the pause ends."
    paused = PausedOrganization(new_id(), "Acme\n", NOW)
    assert why_paused(paused) == (
        f'The organization "Acme" has been paused since 2126-11-21 09:00 UTC{ending}'
    )
    forgotten = PausedOrganization(new_id(), "x" * 200, None)
    assert why_paused(forgotten) == f'The organization "{"x" * 100}…" has been paused{ending}'
    restored = PausedOrganization(new_id(), "Acme", NOW, is_itself=False, because="it was restored")
    assert why_paused(restored) == (
        "The whole instance is paused since 2126-11-21 09:00 UTC: it was restored. "
        "Nothing starts until an operator runs hostsvc unpause --all."
    )


def test_failing_webhook_is_named_by_its_host_alone() -> None:
    url = "https://user:secret@hooks.example.org/secret?token=secret"
    failing = FailingWebhook(new_id(), new_id(), url, NOW, False, "")
    disabled = FailingWebhook(new_id(), new_id(), url, NOW, True, "Every attempt has failed.")
    assert why_failing(failing) == (
        "Deliveries to the webhook at hooks.example.org have failed since 2126-11-21 09:00 UTC; "
        "they are tried again."
    )
    assert why_failing(disabled) == (
        "The service switched the webhook at hooks.example.org off at 2126-11-21 09:00 UTC: "
        "Every attempt has failed."
    )


def test_reminder_is_named_by_its_title() -> None:
    assert because_of_reminder("Call\nMs Moser") == 'The reminder "Call Ms Moser" falls due.'
