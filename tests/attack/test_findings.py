"""Findings say what was measured, and judge it."""

import pytest

from tests.attack.__main__ import chosen, parser
from tests.attack.catalogue import ATTACKS
from tests.attack.findings import Finding, at_most, holds, none_of, unmeasured


def test_finding_is_judged_by_its_bar() -> None:
    judged: dict[str, list[Finding]] = {
        "held": [
            at_most("growth", 64, 64, "MB"),
            holds("it answers", True),
            none_of("forged tokens", [], 3),
        ],
        "FAILED": [
            at_most("growth", 65, 64, "MB"),
            holds("it answers", False),
            none_of("forged tokens", ["alg none"], 3),
            none_of("forged tokens", [], 0),
        ],
        "not measured": [at_most("growth", None, 64, "MB"), unmeasured("claims", "no token secret")],
    }
    assert {verdict: {each.verdict for each in findings} for verdict, findings in judged.items()} == {
        verdict: {verdict} for verdict in judged
    }


def test_finding_names_at_most_three_breaches() -> None:
    assert none_of("paths", [], 9).measured == "0 of 9"
    assert none_of("paths", ["a", "b"], 9).measured == "2 of 9: a; b"
    assert none_of("paths", list("abcde"), 9).measured == "5 of 9: a; b; c; …"


def test_each_attack_says_what_it_attempts() -> None:
    assert all(attack.attempt.endswith(".") for attack in ATTACKS)
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


def test_unknown_attack_is_refused_by_name() -> None:
    assert [attack.name for attack in chosen(["big_lists"])] == ["big_lists"]
    assert chosen([]) == list(ATTACKS)
    with pytest.raises(SystemExit, match="unknown: sharks"):
        chosen(["sharks", "big_lists"])


def test_command_needs_an_address() -> None:
    options = parser().parse_args(["--url", "http://127.0.0.1:1", "--pid", "7", "--only", "big_lists"])
    assert (options.url, options.pid, options.only) == ("http://127.0.0.1:1", 7, ["big_lists"])
