"""Which audit sinks the settings choose."""

from pathlib import Path

import pytest

from sidecar.composition.plugins.built_ins import BUILT_INS
from sidecar.composition.plugins.from_settings import policy_settings
from sidecar.composition.rollout.audit_sinks import opened_sinks
from sidecar.observability.redaction import Redactor
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.factory import IN_PLACE
from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import load_plugins
from sidecar.policy.problems import PluginProblem
from sidecar.policy.selection import PolicyMap, resolve_policy
from sidecar.settings import Settings, SettingsProblem, read_settings

NEEDED = '[definitions]\npath = "config"\n[dispatch]\nfan_out_cap = 3\n'
COLLECTOR = '[telemetry]\notlp_endpoint = "http://127.0.0.1:4317"\n'


def settings_of(folder: Path, text: str) -> Settings:
    """Read settings with `text` after what every file needs."""
    file = folder / "sidecar.toml"
    file.write_text(NEEDED + text)
    return read_settings(file, {})


def resolved(settings: Settings) -> PolicyMap:
    """Look the names up among the built-in plugins."""
    return resolve_policy(policy_settings(settings), load_plugins(BUILT_INS, PluginSelection(), offers=()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["log"]),
        (COLLECTOR, ["log", "otlp"]),
        (f'{COLLECTOR}[audit]\nsinks = ["otlp"]\n', ["otlp"]),
        ('[audit]\nsinks = ["log", "log"]\n', ["log"]),
    ],
)
async def test_events_go_to_the_log_and_to_the_collector_if_there_is_one_unless_told_otherwise(
    tmp_path: Path, text: str, expected: list[str]
) -> None:
    """Each once; what is chosen is shown as active."""
    settings = settings_of(tmp_path, text)
    policy = resolved(settings)
    async with opened_sinks(policy, settings, Redactor(), IN_PLACE) as sinks:
        assert list(sinks) == expected
    assert [name for kind, name in sorted(policy.chosen) if kind is PluginKind.AUDIT_SINK] == expected


def test_an_empty_list_is_refused(tmp_path: Path) -> None:
    """Events would wait for ever."""
    with pytest.raises(SettingsProblem, match=r"audit\.sinks"):
        settings_of(tmp_path, "[audit]\nsinks = []\n")


def test_an_unknown_sink_stops_the_start_and_lists_the_choices(tmp_path: Path) -> None:
    """With the name of the setting."""
    with pytest.raises(PluginProblem) as refused:
        resolved(settings_of(tmp_path, '[audit]\nsinks = ["log", "oltp"]\n'))
    assert "there is no audit-sink named `oltp`" in str(refused.value)
    assert "audit.sinks" in str(refused.value)
    assert "did you mean `otlp`?" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[audit]\nsinks = ["otlp"]\n', "needs `telemetry.otlp_endpoint`, or an `endpoint` of its own"),
        (
            '[audit]\nsinks = ["otlp"]\n[audit_sinks.otlp]\nplugin = "otlp"\nendpoint = "nowhere"\n',
            "audit_sinks.otlp.endpoint",
        ),
    ],
)
async def test_a_sink_that_cannot_be_made_stops_the_start(tmp_path: Path, text: str, why: str) -> None:
    """It says what is missing, or wrong."""
    settings = settings_of(tmp_path, text)
    with pytest.raises(PluginProblem) as refused:
        async with opened_sinks(resolved(settings), settings, Redactor(), IN_PLACE):
            pass
    assert why in str(refused.value)


async def test_the_audit_may_go_to_another_collector_than_the_rest(tmp_path: Path) -> None:
    """Its own endpoint is enough."""
    said = '[audit]\nsinks = ["otlp"]\n[audit_sinks.otlp]\nplugin = "otlp"\nendpoint = "https://audit.example:4317"\n'
    settings = settings_of(tmp_path, said)
    async with opened_sinks(resolved(settings), settings, Redactor(), IN_PLACE) as sinks:
        assert list(sinks) == ["otlp"]
