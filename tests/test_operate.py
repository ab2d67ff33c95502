"""The files of docs/operate for other tools: their own checkers accept them, and they agree with the code."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from hostsvc.cli.commands import main
from hostsvc.cli.install_commands import CLOSE_SECONDS
from hostsvc.config import ServerSettings
from hostsvc.config_reader import read_config
from tests.paths import DOCS, ROOT
from web.app import ROUTES
from web.settings import MAX_ATTACHMENT_BYTES, VERSION, LimitSettings

OPERATE = DOCS / "operate"
CHART = OPERATE / "helm" / "hostsvc"
DOCKERFILE = (OPERATE / "Dockerfile").read_text()
PLACEHOLDER = re.compile(r"\{\{ \.(\w+)\.(\w+)(?: \| (quote))? \}\}")
HADOLINT = str(Path(sys.executable).with_name("hadolint"))
KUBERNETES = "1.31"
PATHS = {route.path for route in ROUTES}
GRACE_SECONDS = ServerSettings().drain_seconds + CLOSE_SECONDS


def instructions(name: str) -> list[str]:
    """Return the arguments of each instruction of the Dockerfile's last stage, on one line."""
    lines = DOCKERFILE.rpartition("\nFROM ")[2].replace("\\\n", " ").splitlines()
    return [line.split(maxsplit=1)[1] for line in lines if line.startswith(name)]


def compose() -> Any:
    return yaml.safe_load((OPERATE / "compose.yaml").read_text())["services"]


def manifests() -> dict[str, Any]:
    """Return the objects of the chart by their kind. It uses nothing of Helm but plain values."""
    values = {
        "Values": yaml.safe_load((CHART / "values.yaml").read_text()),
        "Release": {"Name": "agents"},
    }

    def value(match: re.Match[str]) -> str:
        group, name, quoted = match.groups()
        return f'"{values[group][name]}"' if quoted else str(values[group][name])

    text = PLACEHOLDER.sub(value, (CHART / "templates" / "nodes.yaml").read_text())
    assert "{{" not in text
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def container() -> Any:
    [container] = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container


def require_settings(environment: dict[str, str]) -> None:
    """Fail if a variable is not a setting with a valid value."""
    _, errors = read_config(None, {name: value for name, value in environment.items() if "__" in name})
    assert errors.messages == []


def test_hadolint_accepts_the_dockerfile() -> None:
    checked = subprocess.run([HADOLINT, str(OPERATE / "Dockerfile")], capture_output=True, text=True)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_image_serves_as_a_user_without_privileges() -> None:
    assert instructions("USER") == ["10001"]
    assert "--uid 10001" in instructions("RUN")[0]
    assert instructions("EXPOSE") == [str(ServerSettings().port)]
    assert f"127.0.0.1:{ServerSettings().port}/healthz" in instructions("HEALTHCHECK")[0]
    assert "/healthz" in PATHS
    [variables] = instructions("ENV")
    require_settings(dict(word.split("=", 1) for word in variables.split()))
    entry, command = (yaml.safe_load(instructions(name)[0]) for name in ("ENTRYPOINT", "CMD"))
    assert entry == ["hostsvc"]
    assert command[0] in main.commands


def test_image_is_built_from_what_the_wheel_needs() -> None:
    copied = {
        word
        for line in re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE)
        for word in line.split()
    }
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert copied >= {
        *wheel["packages"],
        *wheel["force-include"],
        "LICENSE",
        "README.md",
        "requirements.lock",
    }
    allowed = (OPERATE / "Dockerfile.dockerignore").read_text().split()
    assert allowed[0] == "*"
    assert {f"!{name}" for name in copied} <= set(allowed)


def test_compose_runs_the_image_on_a_recent_postgresql() -> None:
    service, database = compose()["hostsvc"], compose()["database"]
    assert (OPERATE / service["build"]["context"]).resolve() == ROOT
    assert (ROOT / service["build"]["dockerfile"]).is_file()
    assert service["ports"] == [f"127.0.0.1:{ServerSettings().port}:{ServerSettings().port}"]
    assert service["stop_grace_period"] == f"{GRACE_SECONDS:.0f}s"
    assert service["volumes"] == [f"state:{instructions('WORKDIR')[0]}"]
    assert int(re.findall(r"postgres:(\d+)", database["image"])[0]) >= 17
    require_settings(dict.fromkeys(set(service["secrets"]) - {"HOSTSVC__DATABASE__URL"}, "A" * 43))
    assert "HOSTSVC__DATABASE__URL" in service["secrets"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_nightly_backup() -> None:
    units = [str(unit) for unit in sorted(OPERATE.glob("hostsvc-backup.*"))]
    checked = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True)
    assert (len(units), checked.returncode, checked.stderr) == (2, 0, "")
    command = re.findall(r"exec hostsvc (\w+) --config (\S+)", Path(units[0]).read_text())
    assert command == [("backup", "/etc/hostsvc/config.toml")]


@pytest.mark.parametrize("kind", ["Deployment", "Service", "PodDisruptionBudget"])
def test_kubernetes_knows_all_fields_of_the_chart(kind: str) -> None:
    kubernetes_validate.validate(manifests()[kind], KUBERNETES, strict=True)


def test_chart_runs_the_image_with_probes_and_time_to_drain() -> None:
    node, pod = container(), manifests()["Deployment"]["spec"]["template"]["spec"]
    assert node["image"] == f"hostsvc:{VERSION}"
    assert node["args"][0] in main.commands
    assert node["ports"][0]["containerPort"] == ServerSettings().port
    probes = {name: node[name]["httpGet"]["path"] for name in node if name.endswith("Probe")}
    assert probes == {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert set(probes.values()) <= PATHS
    assert pod["securityContext"]["runAsUser"] == int(instructions("USER")[0])
    assert pod["terminationGracePeriodSeconds"] == GRACE_SECONDS
    require_settings({each["name"]: each.get("value", "10.1.2.3") for each in node["env"]})
    mounts = {mount["name"]: mount["mountPath"] for mount in node["volumeMounts"]}
    assert mounts["state"] == instructions("WORKDIR")[0]
    assert {"name": "CREDENTIALS_DIRECTORY", "value": mounts["secrets"]} in node["env"]


def test_disruption_budget_and_service_select_the_nodes() -> None:
    found = manifests()
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert f'"{VERSION}"' in (CHART / "Chart.yaml").read_text()


@pytest.fixture
def nginx(tmp_path: Path) -> Path:
    """Write a main configuration around ours, whose certificate is made for the test."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", "/CN=agents.example.org", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    text = (OPERATE / "nginx.conf").read_text()
    text = text.replace("/etc/ssl/private/agents.example.org.key", str(key))
    text = text.replace("/etc/ssl/agents.example.org.pem", str(certificate))
    file = tmp_path / "nginx.conf"
    file.write_text(f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {text} }}")
    return file


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_accepts_its_configuration(nginx: Path) -> None:
    tested = subprocess.run(["nginx", "-t", "-c", str(nginx)], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stderr
    assert "warn" not in tested.stderr
    megabytes = int(re.findall(r"client_max_body_size (\d+)m", nginx.read_text())[0])
    assert megabytes << 20 > MAX_ATTACHMENT_BYTES + LimitSettings().body_bytes


@pytest.mark.skipif(shutil.which("caddy") is None, reason="caddy is not installed")
def test_caddy_accepts_its_configuration(tmp_path: Path) -> None:
    command = ["caddy", "validate", "--adapter", "caddyfile", "--config", str(OPERATE / "Caddyfile")]
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    tested = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert tested.returncode == 0, tested.stderr
    assert '"level":"warn"' not in tested.stderr


def test_pages_link_to_files_that_exist() -> None:
    """The other pages of this folder are written apart."""
    links = {
        f"{page.name}: {target}"
        for page in OPERATE.glob("*.md")
        for target in re.findall(r"\]\(([^)#:]+)", page.read_text())
        if not (page.parent / target).exists()
    }
    assert links == set()
