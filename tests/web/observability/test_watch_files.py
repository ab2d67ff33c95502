"""The alert rules and the dashboard of docs/operate: Prometheus reads them, and their metrics exist."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.paths import DOCS
from tests.web.conftest import Service

OPERATE = DOCS / "operate"
ALERTS, DASHBOARD = OPERATE / "alerts.yml", OPERATE / "dashboard.json"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")


def expressions() -> list[str]:
    """Return the expressions of all panels."""
    panels: list[Any] = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def promtool(*arguments: str) -> None:
    ended = subprocess.run(["promtool", *arguments], capture_output=True, text=True, cwd=OPERATE, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


async def test_rules_and_panels_name_exported_metrics_only(service: Service) -> None:
    text = (await service.operator.get("/metrics")).body
    exported = {
        family.name + suffix
        for family in text_string_to_metric_families(text)
        for suffix in SUFFIXES.get(family.type, ("",))
    }
    named = set(re.findall(r"\bhostsvc_\w+", " ".join([ALERTS.read_text(), *expressions()])))
    assert named - exported == set()
    assert len(named) > 20


def test_each_alert_is_explained() -> None:
    alerts = re.findall(r"alert: (\w+)", ALERTS.read_text())
    assert re.findall(r"^### (Hostsvc\w+)$", (OPERATE / "watch.md").read_text(), re.MULTILINE) == alerts


@needs_promtool
def test_alerts_fire_as_their_unit_tests_say() -> None:
    promtool("check", "rules", ALERTS.name)
    promtool("test", "rules", "alerts_test.yml")


@needs_promtool
def test_prometheus_parses_every_panel(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": each.replace("$__rate_interval", "5m")}
        for number, each in enumerate(expressions())
    ]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))  # JSON is YAML
    promtool("check", "rules", str(file))
