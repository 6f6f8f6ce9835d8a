"""The alert rules, run by a real Prometheus server that scrapes a real sidecar."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from examples.ccs.faults import FaultKind
from tests.support.named_skips import needs_tool
from tests.support.operated_process import operated_process
from tests.support.prometheus import ALERTS, scraping
from tests.support.requirement import requirement
from tests.support.sidecar_process import place
from tests.support.telemetry_chain import telemetry_chain

pytestmark = pytest.mark.system

NO_SLOW_MACHINE: Final = 'alertname!="EventLoopHeldUp"'
"""That alert is true if other programs keep the processor from the sidecar for a quarter of a second."""


@pytest.mark.parametrize("what", [("check", "rules", "sidecar.rules.yml"), ("test", "rules", "sidecar.rules.test.yml")])
def test_the_rules_are_right_by_themselves(what: tuple[str, ...]) -> None:
    """Well-formed, and each fires and stays silent as its cases say, under both spellings of the names."""
    promtool = needs_tool("promtool", package="prometheus")
    ran = subprocess.run([promtool, *what], cwd=ALERTS, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@requirement("PC2-OBS-6", "PC2-NFR-4b", "PC2-AC-6b")
@pytest.mark.seconds(120)
async def test_the_very_first_mismatch_ever_fires_the_alert(tmp_path: Path) -> None:
    """Nothing fires before; a wrong envelope comes, and the next evaluations fire for it, and for nothing else."""
    prometheus = needs_tool("prometheus")
    async with telemetry_chain("") as chain, scraping(prometheus, chain.sidecar, tmp_path) as server:
        await server.until("ps6_envelope_principal_mismatch_total == 0")
        await chain.turn(1, "ask_shop")
        await server.until("sidecar_turn_ended_total == 1")
        assert await server.query(f"ALERTS{{{NO_SLOW_MACHINE}}}") == []

        chain.ccs.fault(FaultKind.WRONG_PRINCIPAL, answer_as="user-other")
        await chain.turn(2, "ask_shop")

        fired = await server.until('ALERTS{alertstate="firing", alertname="EnvelopeForAnotherUser"}')
        assert [one["metric"]["consumer"] for one in fired] == ["consumer-agent"]
        others = await server.query(f'ALERTS{{alertstate="firing", severity="page", {NO_SLOW_MACHINE}}}')
        names = {one["metric"]["alertname"] for one in others}
        assert names <= {"EnvelopeForAnotherUser", "SecurityIncident"}


@requirement("PF1-OBS-3", "PF1-D-51")
@pytest.mark.seconds(120)
async def test_the_very_first_kill_fires_the_alert(tmp_path: Path) -> None:
    """Nothing fires before; somebody kills a sub-agent; the alert names it, and a join tells its vertical."""
    prometheus = needs_tool("prometheus")
    with place() as folder:
        async with operated_process(folder) as bench, scraping(prometheus, bench.sidecar, tmp_path) as server:
            await server.until('subagent_lifecycle_kill_switch_fired_total{subagent_id="shop"} == 0')
            await bench.offers("turn-1")
            assert await server.query(f'ALERTS{{alertname!="PrincipalMismatchNotMeasured", {NO_SLOW_MACHINE}}}') == []

            await bench.killed("shop")
            await bench.offers("turn-2")

            fired = await server.until('ALERTS{alertstate="firing", alertname="KillSwitchFired"}')
            assert [one["metric"]["subagent_id"] for one in fired] == ["shop"]
            paging = await server.query(f'ALERTS{{alertstate="firing", severity="page", {NO_SLOW_MACHINE}}}')
            assert {one["metric"]["alertname"] for one in paging} == {"KillSwitchFired"}
            (by_vertical,) = await server.until(
                "sum by (vertical, trigger) (subagent_lifecycle_transition_total * on (subagent_id, instance)"
                " group_left (vertical) sidecar_rollout_definition_info) == 1"
            )
            assert by_vertical["metric"] == {"vertical": "shop", "trigger": "kill_switch"}


@pytest.mark.seconds(60)
async def test_what_the_rules_of_rollouts_look_at_is_there_from_the_start() -> None:
    """Before anything has happened: a rule about a series that comes with its first event would miss that one."""
    with place() as folder:
        async with operated_process(folder) as bench:
            await bench.offers("turn-1")
            page = (await bench.sidecar.page("/metrics")).text
    for line in (
        'subagent_lifecycle_kill_switch_fired_total{subagent_id="rewards"} 0.0',
        'subagent_lifecycle_gate_failed_total{milestone="pre_ramp",subagent_id="shop"} 0.0',
        'subagent_lifecycle_rollback_duration_seconds_bucket{le="300.0",subagent_id="shop"} 0.0',
        "subagent_lifecycle_decommission_cleanup_pending_total 0.0",
        "sidecar_rollout_decommission_overdue 0.0",
        'sidecar_rollout_drift{subagent_id="shop"} 0.0',
        'sidecar_rollout_ramp{subagent_id="shop"} 1.0',
        'sidecar_rollout_pinned_turns{subagent_id="shop"} 1.0',
        'sidecar_rollout_pinned_turns{subagent_id="rewards"} 0.0',
        "sidecar_rollout_stops_pending 0.0",
        "sidecar_rollout_cohorts 1.0",
        "sidecar_rollout_cohorts_bound 64.0",
        "sidecar_audit_removed_total 0.0",
        'sidecar_anomalies_total{kind="audit_sink_failed"} 0.0',
        'sidecar_anomalies_total{kind="gate_unavailable"} 0.0',
        'sidecar_anomalies_total{kind="many_cohorts"} 0.0',
    ):
        assert f"{line}\n" in page, line
    assert "\nsidecar_audit_waiting_seconds " in page
    assert 'sidecar_audit_exported_total{sink="log"} ' in page
    assert 'sidecar_flags_age_seconds{backend="embedded"} ' in page
