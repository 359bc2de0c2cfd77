"""OpenTelemetry without its packages: when it is on, and that a missing package is one line."""

import sys

import pytest

from etc_policy.errors import install_hint
from etc_policy.integrations.opentelemetry import is_configured
from tests.unit.cli.conftest import etc  # noqa: F401 - a fixture
from tests.unit.cli.test_apply import outside  # noqa: F401 - a fixture

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1"}


@pytest.mark.parametrize(
    ("variables", "is_on"),
    [
        ({}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", **ENDPOINT}, False),
        ({"OTEL_SDK_DISABLED": "TRUE", **ENDPOINT}, False),
    ],
)
def test_it_is_on_where_its_own_variables_say_so(variables, is_on):
    assert is_configured(variables) == is_on


def test_a_missing_package_is_one_line_with_the_command(etc, outside, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    code, _, err = etc("apply", "--at", "2026-01-01T12:00:00Z", "--yes")
    assert (code, err.count("ETC357"), err.count(install_hint("otel"))) == (0, 1, 1)
