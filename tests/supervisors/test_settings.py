"""Settings of supervisors and runs: values out of range are refused when they are built."""

from collections.abc import Callable

import pytest

from supervisors.settings import RunSettings, SupervisorSettings, require_between


@pytest.mark.parametrize("value", [0, 10, 2.5])
def test_value_within_the_range_is_accepted(value: float) -> None:
    require_between("seconds", value, 0, 10)


@pytest.mark.parametrize("value", [-1, 10.5, float("nan"), float("inf")])
def test_value_out_of_range_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match=rf"^seconds must be between 0 and 10, got {value}$"):
        require_between("seconds", value, 0, 10)


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: SupervisorSettings(scan_interval_seconds=0), "scan_interval_seconds"),
        (lambda: SupervisorSettings(mailbox_limit=0), "mailbox_limit"),
        (lambda: SupervisorSettings(debounce_cap_seconds=-1), "debounce_cap_seconds"),
        (lambda: RunSettings(max_concurrent=0), "max_concurrent"),
        (lambda: RunSettings(max_turns=2**31), "max_turns"),
        (lambda: RunSettings(default_provider=" "), "default_provider"),
        (lambda: RunSettings(default_provider="a/b"), "default_provider"),
    ],
)
def test_invalid_setting_is_refused_by_name(build: Callable[[], object], name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be "):
        build()
