"""What rollouts report, as counts with the names of the specification."""

from typing import Any, cast

from sidecar.core.binding.cohort import Cohort
from sidecar.core.identifiers import Slot
from sidecar.observability import names
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.rollout_recorder import MeasuringRolloutRecorder
from sidecar.operations.rollout.views.cohort_count import CohortCount
from tests.support.harness import KeepingRecorder
from tests.support.requirement import requirement
from tests.support.stopping import HandClock


@requirement("PF1-OBS-2")
def test_a_gate_that_said_no_is_counted_by_sub_agent_and_milestone() -> None:
    """Two of one, one of another."""
    metrics = Metrics()
    recorder = MeasuringRolloutRecorder(metrics, lambda kind, detail: None)
    for gate in ("pre_ramp", "pre_ramp", "pre_full"):
        recorder.gate_failed("shop", gate)
    (counter,) = [each for each in metrics if each.name == names.GATES_FAILED]
    assert cast("Any", counter).series == {("shop", "pre_ramp"): 2, ("shop", "pre_full"): 1}
    assert cast("Any", counter).labels == ("subagent_id", "milestone")


def test_a_rollback_of_five_minutes_is_told_from_a_longer_one() -> None:
    """The budget is a bound of the histogram."""
    metrics = Metrics()
    recorder = MeasuringRolloutRecorder(metrics, lambda kind, detail: None)
    for seconds in (0.1, 299.0, 301.0):
        recorder.rolled_back("shop", seconds)
    (histogram,) = [each for each in metrics if each.name == names.ROLLBACK_SECONDS]
    counts = cast("Any", histogram).series[("shop",)].counts
    within = list(cast("Any", histogram).bounds).index(300.0) + 1
    assert (sum(counts[:within]), sum(counts)) == (2, 3)


def test_what_alerts_look_at_is_there_at_zero_from_the_start() -> None:
    """The first kill that is not kept is a rise, not a new series."""
    metrics = Metrics()
    MeasuringRecorder(metrics)
    MeasuringRolloutRecorder(metrics, lambda kind, detail: None).known("shop")
    series = {each.name: cast("Any", each).series for each in metrics if hasattr(each, "series")}
    assert series[names.KILL_SWITCHES_FIRED] == {("shop",): 0}
    assert series[names.GATES_FAILED] == {("shop", gate): 0 for gate in ("pre_merge", "pre_ramp", "pre_full")}
    assert sum(series[names.ROLLBACK_SECONDS]["shop",].counts) == 0
    for kind in ("tombstone_not_kept", "tombstones_damaged", "stop_not_recorded", "audit_sink_failed", "many_cohorts"):
        assert series[names.ANOMALIES][(kind,)] == 0


@requirement("PF1-D-65")
def test_many_cohorts_are_warned_of_once_a_day() -> None:
    """Bound 3: the fourth distinct one warns, repetitions count nothing, and the next day begins anew."""
    clock, recorder = HandClock(), KeepingRecorder()
    count = CohortCount(clock, cast("Any", recorder), bound=3)
    for number in [*range(5), *range(5)]:
        count.bound_in(a_cohort(f"flag-{number}"))
    assert (count.distinct, [kind for kind, _ in recorder.of("anomaly")]) == (5, ["many_cohorts"])
    clock.seconds += 90_000
    count.bound_in(a_cohort("flag-1"))
    assert count.distinct == 1


def test_cohorts_are_not_remembered_without_end() -> None:
    """A thousand distinct ones with a bound of 3."""
    count = CohortCount(HandClock(), cast("Any", KeepingRecorder()), bound=3)
    for number in range(1000):
        count.bound_in(a_cohort(f"flag-{number}"))
    assert count.distinct == 48


@requirement("PF1-T-3")
def test_every_set_of_ten_sub_agents_is_a_cohort_and_there_are_no_more_than_can_be_remembered() -> None:
    """Ten in ramps of their own: 1,024 cohorts that only `active_sub_agents` tells apart, one warning, and no more."""
    recorder = KeepingRecorder()
    count = CohortCount(HandClock(), cast("Any", recorder))
    for chosen in range(2**10):
        active = tuple(Slot(f"s{bit}") for bit in range(10) if chosen >> bit & 1)
        count.bound_in(Cohort("1", "1", "1", (), "", active))
    assert (count.distinct, len(recorder.of("anomaly"))) == (1024, 1)
    for number in range(1000):
        count.bound_in(Cohort("1", "1", "1", (), f"arm-{number}", ()))
    assert count.distinct == 1024


def a_cohort(flag: str) -> Cohort:
    """Return a cohort that only its flag tells from others."""
    return Cohort("1", "1", "1", (flag,), "", ())
