"""The variables of OpenTelemetry that name a receiver of spans."""

import pytest

from hostsvc.config_reader import read_config
from hostsvc.otlp_receiver import read_otlp_settings

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
URL = "http://localhost:4318"


def test_variables_for_traces_take_precedence() -> None:
    assert read_otlp_settings({}) is None
    assert read_otlp_settings({ENDPOINT: URL, "OTEL_SDK_DISABLED": "True"}) is None
    of_all = {ENDPOINT: f"{URL}/", "OTEL_EXPORTER_OTLP_TIMEOUT": "5000", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"}
    settings = read_otlp_settings(of_all)
    assert settings is not None
    assert (settings.url, settings.timeout_seconds, settings.headers) == (f"{URL}/v1/traces", 5, {"a": "b"})
    of_traces = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{URL}/x", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "1"}
    settings = read_otlp_settings(of_all | of_traces)
    assert settings is not None
    assert (settings.url, settings.timeout_seconds) == (f"{URL}/x", 0.001)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENDPOINT", "localhost:4318"),
        ("PROTOCOL", "grpc"),
        ("COMPRESSION", "zstd"),
        ("TIMEOUT", "10s"),
        ("TIMEOUT", "0"),
    ],
)
def test_unusable_variable_is_named_by_the_configuration(name: str, value: str) -> None:
    variables = {ENDPOINT: URL, f"OTEL_EXPORTER_OTLP_{name}": value}
    config, errors = read_config(None, variables)
    [message] = errors.messages
    assert message.startswith(f"OTEL_EXPORTER_OTLP_{name} must be ")
    assert value in message
    assert config.otlp is None
