"""Which background loops decide whether new turns are taken."""

import pytest

from sidecar.composition.telemetry.background_reports import LoopReports
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness


def reports() -> tuple[LoopReports, Readiness]:
    """Return reports of a process that is ready."""
    readiness = Readiness(lambda ready: None)
    readiness.clear("start")
    return LoopReports(Metrics(), readiness), readiness


@pytest.mark.parametrize("name", ["definitions", "flags", "lease", "rolloutviews", "reaper", "a loop of tomorrow"])
def test_a_loop_that_turns_need_stands_against_readiness_until_it_runs_again(name: str) -> None:
    """Also one that nobody has sorted in yet."""
    told, readiness = reports()

    told.loop_down(name, ValueError("it died"))
    assert readiness.against == {f"loop {name}": f"the background loop {name} is down; see the log"}

    told.loop_up(name)
    assert readiness.ready


@pytest.mark.parametrize(
    "name", ["checkpointing", "checkpoint key", "retention", "audit retention", "historycatchup", "auditexport log"]
)
def test_a_loop_beside_the_turns_never_decides_readiness(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is down: told in the log, and new turns are taken."""
    told, readiness = reports()

    told.loop_down(name, ValueError("it died"))

    assert readiness.ready
    assert [record.levelname for record in caplog.records if record.name == "sidecar.loops"] == ["ERROR"]
