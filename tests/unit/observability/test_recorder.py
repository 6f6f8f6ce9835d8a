"""What operations report, as counts and log lines."""

import logging
import re
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from sidecar.core.binding.cohort import Cohort
from sidecar.core.binding.surface import Candidate
from sidecar.core.dispatching.cap import CapBehaviour
from sidecar.core.dispatching.intents import IntentReport
from sidecar.core.dispatching.money import units
from sidecar.core.dispatching.outcomes import Outcome, Usage
from sidecar.core.dispatching.routing_record import RoutedCall, RoutingRecord
from sidecar.core.envelopes.verdicts import WithholdReason
from sidecar.core.identifiers import CallId, ChildId, DefinitionId, Digest, DispatchId, EpisodeId, Slot, TurnId
from sidecar.core.rollout.serving import CandidateVerdict
from sidecar.observability.exposition import exposition
from sidecar.observability.logging import ALWAYS
from sidecar.observability.metrics import MOST_SERIES, Metrics
from sidecar.observability.recorder import BEGINNINGS, UNKNOWN_TYPES, MeasuringRecorder
from subagents_errors import Axis, CallFailure
from tests.support.requirement import requirement

BOUND = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def page(metrics: Metrics) -> str:
    """Return what a Prometheus server reads."""
    return exposition(metrics, "text/plain")[0].decode()


def call(index: int, slot: str, outcome: Outcome, reason: CallFailure | None = None) -> RoutedCall:
    """Return a call; one that succeeded or failed was run, any other was not."""
    ran = outcome in {Outcome.SUCCEEDED, Outcome.FAILED}
    return RoutedCall(
        dispatch_id=DispatchId("d1"),
        call_id=CallId(f"c{index}"),
        sub_agent_id=Slot(slot),
        child_id=ChildId(f"child-{index}") if ran else None,
        emission_index=index,
        outcome=outcome,
        reason=reason,
        axis=Axis.EXECUTION if outcome is Outcome.FAILED else Axis.NONE,
        started_at=BOUND + timedelta(seconds=2) if ran else None,
        settled_at=BOUND + timedelta(seconds=3),
        attempts=int(ran),
        status_events=4 if ran else 0,
    )


def record(*calls: RoutedCall, cap: CapBehaviour = CapBehaviour.WITHIN, declared: int = 0) -> RoutingRecord:
    """Return the routing decision of a turn with these calls."""
    emitted = len({each.sub_agent_id for each in calls})
    return RoutingRecord(
        turn_id=TurnId("turn-1"),
        episode_id=EpisodeId("episode-1"),
        orchestrator_id=DefinitionId("main"),
        candidates=(
            Candidate(Slot("shop"), DefinitionId("shop"), CandidateVerdict.CHOSEN),
            Candidate(Slot("travel"), DefinitionId("travel"), CandidateVerdict.FLAG_OFF),
        ),
        calls=calls,
        intents=(IntentReport(declared, emitted, False, False),),
        fan_out_cap=2,
        cap=cap,
        cohort=Cohort("1", "1", "1", ("a_flag",), "arm", (Slot("shop"),)),
        binding_digest="sha256:0",
        bound_at=BOUND,
        ended_at=BOUND + timedelta(seconds=4),
        close_reason="ended",
        overhead=timedelta(milliseconds=5),
        principal_asserted_by="orchestrator",
        gate_passed=True,
    )


@requirement("PC2-D-26")
def test_alerting_counters_are_there_at_nought_and_count() -> None:
    """Both `ps6.*` names with their one label, before and after a mismatch."""
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics)
    names = ("ps6_envelope_principal_mismatch_total", "ps6_envelope_version_mismatch_total")
    for name in names:
        assert f'{name}{{consumer="consumer-agent"}} 0.0\n' in page(metrics)

    recorder.principal_mismatch("shop", "search_offers", "child-1")
    recorder.version_mismatch("shop", "search_offers")

    for name in names:
        assert f'{name}{{consumer="consumer-agent"}} 1.0\n' in page(metrics)


@requirement("PC2-OBS-2", "PC2-OBS-3", "PC2-OBS-8", "PC1-OBS-3")
def test_a_turn_is_counted_by_intents_cap_and_fan_out() -> None:
    """Two ran, one of them failed, one was dropped: three intents, over the cap, fan-out 2, success 1 of 2."""
    metrics = Metrics()
    calls = (
        call(0, "shop", Outcome.SUCCEEDED),
        call(1, "rewards", Outcome.FAILED, CallFailure.ATTEMPT_TIMEOUT),
        call(2, "support", Outcome.DROPPED, CallFailure.OVER_CAP),
    )

    MeasuringRecorder(metrics).turn_routed(record(*calls, cap=CapBehaviour.OVER))

    shown = page(metrics)
    for line in (
        'sidecar_turn_intents_bucket{le="2.0"} 0.0',
        'sidecar_turn_intents_bucket{le="+Inf"} 1.0',
        "sidecar_turn_over_cap_total 1.0",
        'sidecar_turn_sub_agents_bucket{le="1.0"} 0.0',
        'sidecar_turn_sub_agents_bucket{le="2.0"} 1.0',
        'sidecar_turn_fan_out_calls_total{result="succeeded"} 1.0',
        'sidecar_turn_fan_out_calls_total{result="not_succeeded"} 1.0',
        "sidecar_turn_partial_failures_total 1.0",
    ):
        assert f"{line}\n" in shown


@requirement("PC2-OBS-4", "PC2-OBS-7", "PC2-OBS-9")
def test_calls_and_dispatches_are_measured() -> None:
    """Latency by sub-agent, overhead in milliseconds, progress reports, failures by axis."""
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics)

    recorder.child_settled("shop", "failed", int(Axis.EXECUTION), 1.2)
    recorder.child_settled("shop", "succeeded", int(Axis.NONE), 0.2)
    recorder.dispatch_settled(2, 1, timedelta(milliseconds=3))
    recorder.turn_routed(record(call(0, "shop", Outcome.SUCCEEDED)))

    shown = page(metrics)
    for line in (
        'sidecar_child_duration_seconds_bucket{le="1.0",outcome="failed",sub_agent_id="shop"} 0.0',
        'sidecar_child_duration_seconds_bucket{le="2.5",outcome="failed",sub_agent_id="shop"} 1.0',
        'sidecar_child_failures_total{axis="1",sub_agent_id="shop"} 1.0',
        'sidecar_dispatch_settled_total{result="some"} 1.0',
        'sidecar_dispatch_overhead_seconds_bucket{le="0.0025"} 0.0',
        'sidecar_dispatch_overhead_seconds_bucket{le="0.005"} 1.0',
        'sidecar_child_status_events_sum{sub_agent_id="shop"} 4.0',
    ):
        assert f"{line}\n" in shown


@requirement("PC1-OBS-2")
def test_the_orchestrators_time_runs_from_the_bind_to_its_first_call_and_tells_summaries_apart() -> None:
    """Four seconds with a summary, two without, in buckets by which a quantile can be told; no call, no time."""
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics)
    late = msgspec.structs.replace(call(0, "shop", Outcome.SUCCEEDED), started_at=BOUND + timedelta(seconds=4))
    switched = msgspec.structs.replace(record(late), intents=(IntentReport(1, 1, True, False),))

    recorder.turn_routed(record())
    recorder.turn_routed(record(call(0, "shop", Outcome.SUCCEEDED)))
    recorder.turn_routed(switched)

    shown = page(metrics)
    for needed, seconds in (("not_needed", 2.0), ("needed", 4.0)):
        of = f'prior_context="{needed}"'
        assert f"sidecar_turn_routing_seconds_count{{{of}}} 1.0\n" in shown
        assert f"sidecar_turn_routing_seconds_sum{{{of}}} {seconds}\n" in shown
        filled = re.findall(rf'sidecar_turn_routing_seconds_bucket{{le="([\d.]+)",{of}}} 1.0', shown)
        empty = re.findall(rf'sidecar_turn_routing_seconds_bucket{{le="([\d.]+)",{of}}} 0.0', shown)
        assert max(map(float, empty)) < seconds <= min(map(float, filled)) <= 2 * seconds


@requirement("PC2-D-51")
def test_the_decision_is_logged_whatever_the_level(caplog: pytest.LogCaptureFixture) -> None:
    """Without any call, with the whole candidate set; sampling or a quiet log must not lose it."""
    caplog.set_level(logging.INFO, ALWAYS)
    MeasuringRecorder(Metrics()).turn_routed(record(declared=1))

    logged = caplog.records[0]
    assert logged.__dict__["event"] == "routing.decision"
    fields = logged.__dict__["fields"]
    assert fields["candidates"] == [
        {"slot": "shop", "definition_id": "shop", "verdict": "chosen"},
        {"slot": "travel", "definition_id": "travel", "verdict": "flag_off"},
    ]
    assert (fields["invoked"], fields["cap"], fields["intents"][0]["failsafe"]) == ([], "within", True)


def test_an_incident_is_an_error_of_its_own_name(caplog: pytest.LogCaptureFixture) -> None:
    """With sub-agent, tool and reason, for an alert on the log; counted by reason."""
    caplog.set_level(logging.INFO, ALWAYS)
    metrics = Metrics()
    MeasuringRecorder(metrics).security_incident("shop", "search_offers", "child-1", WithholdReason.NONCE_MISMATCH)

    logged = caplog.records[0]
    assert (logged.levelname, logged.__dict__["event"]) == ("ERROR", "security.incident")
    assert logged.__dict__["fields"] == {
        "sub_agent_id": "shop",
        "tool_id": "search_offers",
        "child_id": "child-1",
        "reason": "nonce_mismatch",
    }
    assert 'security_incidents_total{reason="nonce_mismatch"} 1.0' in page(metrics)


def test_an_incident_without_a_principal_asks_for_the_envelope(caplog: pytest.LogCaptureFixture) -> None:
    """The line says what is likely wrong, and is as loud as any incident."""
    caplog.set_level(logging.INFO, ALWAYS)
    MeasuringRecorder(Metrics()).security_incident("shop", "offers", "child-1", WithholdReason.PRINCIPAL_ABSENT)

    (logged,) = caplog.records
    assert (logged.levelname, logged.__dict__["event"]) == ("ERROR", "security.incident")
    assert logged.getMessage().startswith("no principal in the envelope: is this an envelope at all?")


def test_labels_cannot_fill_the_memory() -> None:
    """Whatever comes after the first so many is counted together."""
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics)
    for number in range(MOST_SERIES + 50):
        recorder.status_seen(f"slot-{number}", "forward")
        recorder.child_settled(f"slot-{number}", "failed", 1, 0.1)
    shown = page(metrics)
    assert 'status_decisions_total{decision="other",sub_agent_id="other"} 50.0' in shown
    assert shown.count("sidecar_child_failures_total{") == MOST_SERIES + 1


def test_a_flood_of_definitions_cannot_fill_the_memory_with_calls() -> None:
    """The first so many keep their own series; all further ones share one, and no call is lost to the sum."""
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics)
    for number in range(MOST_SERIES + 50):
        recorder.call_settled("shop", f"shop-{number}", "target", Outcome.FAILED, CallFailure.RUNNER_FAILED)
    recorder.call_settled("shop", "shop-0", "target", Outcome.FAILED, CallFailure.RUNNER_FAILED)
    recorder.call_settled("shop", "shop-0", "active", Outcome.SUCCEEDED, "")

    shown = [line for line in page(metrics).splitlines() if line.startswith("sidecar_child_calls_total{")]
    assert len(shown) == MOST_SERIES + 1
    assert (
        'sidecar_child_calls_total{arm="target",definition_id="shop-0",outcome="failed",reason="RUNNER_FAILED",'
        'sub_agent_id="shop"} 2.0' in shown
    )
    other = 'arm="other",definition_id="other",outcome="other",reason="other",sub_agent_id="other"'
    assert f"sidecar_child_calls_total{{{other}}} 51.0" in shown


def test_a_type_outside_the_vocabulary_warns_once_and_prose_is_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    """Reported three times by one sub-agent, once by another; prose may hold a user's words."""
    recorder = MeasuringRecorder(Metrics())
    for slot in ("shop", "shop", "rewards", "shop"):
        recorder.status_unknown(slot, "checking_stock")
    for prose in ("Looking for Kim's shoes!", "Still looking for Kim's shoes!"):
        recorder.status_unknown("shop", prose)

    assert [(entry.levelname, entry.getMessage()) for entry in caplog.records] == [
        ("WARNING", f"{slot} reported {what}; it is dropped")
        for slot, what in (
            ("shop", "the status event 'checking_stock', which has no entry in [status.events]"),
            ("rewards", "the status event 'checking_stock', which has no entry in [status.events]"),
            ("shop", "progress in prose, not a typed identifier"),
        )
    ]


def test_warnings_of_unknown_types_end_after_so_many_different_ones(caplog: pytest.LogCaptureFixture) -> None:
    """A host that makes up types fills neither the memory nor the log."""
    recorder = MeasuringRecorder(Metrics())
    for number in range(UNKNOWN_TYPES + 50):
        recorder.status_unknown("shop", f"made_up_{number}")

    assert len(caplog.records) == UNKNOWN_TYPES


def test_other_reports_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Data calls, missing summaries, anomalies; the latter are warnings too."""
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics)
    recorder.data_call("shop", "search_offers", WithholdReason.TIMEOUT, 5.0)
    recorder.prior_context_missing("main")
    recorder.anomaly("breaker_opened", "unix:/run/shop.sock")
    shown = page(metrics)
    assert 'sidecar_gateway_duration_seconds_sum{tool_id="search_offers"} 5.0' in shown
    assert 'prior_context_missing_total{orchestrator_id="main"} 1.0' in shown
    assert 'sidecar_anomalies_total{kind="breaker_opened"} 1.0' in shown
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [("WARNING", "unix:/run/shop.sock")]


@requirement("PC1-OBS-6", "PC1-NFR-5")
def test_episodes_and_the_orchestrators_time_are_measured() -> None:
    """Compaction due or unknown, length in turns and tokens; composing runs from the last outcome to the end."""
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics)
    recorder.turn_bound("due", 30, 9_000)
    recorder.turn_bound("unknown", None, None)
    recorder.turn_routed(record(call(0, "shop", Outcome.SUCCEEDED)))

    shown = page(metrics)
    for line in (
        'sidecar_episode_compaction_total{due="due"} 1.0',
        'sidecar_episode_compaction_total{due="unknown"} 1.0',
        "sidecar_episode_turns_sum 30.0",
        'sidecar_episode_estimated_tokens_bucket{le="8000.0"} 0.0',
        'sidecar_episode_estimated_tokens_bucket{le="16000.0"} 1.0',
        "sidecar_turn_composing_seconds_sum 1.0",
        'sidecar_turn_duration_seconds_sum{fan_out="one"} 4.0',
    ):
        assert f"{line}\n" in shown


def test_tokens_are_counted_and_those_of_a_cache_only_where_a_provider_says() -> None:
    """Two attempts of one that says, one of another that does not: no series, rather than none from a cache."""
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics)
    recorder.tokens_used("shop", Usage(100, 10, 0))
    recorder.tokens_used("shop", Usage(200, 20, 150))
    recorder.tokens_used("rewards", Usage(7, 3))

    told = {line for line in page(metrics).splitlines() if line.startswith("sidecar_child_tokens_total{")}
    assert told == {
        'sidecar_child_tokens_total{kind="input",sub_agent_id="shop"} 300.0',
        'sidecar_child_tokens_total{kind="output",sub_agent_id="shop"} 30.0',
        'sidecar_child_tokens_total{kind="cached",sub_agent_id="shop"} 150.0',
        'sidecar_child_tokens_total{kind="input",sub_agent_id="rewards"} 7.0',
        'sidecar_child_tokens_total{kind="output",sub_agent_id="rewards"} 3.0',
    }


def test_money_is_counted_by_slot_definition_and_arm_and_an_unknown_cost_by_itself() -> None:
    """In US dollars; an unknown cost adds nothing to them."""
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics)
    for arm, cost in (("active", units(0.5)), ("active", units(0.25)), ("target", units(2)), ("active", None)):
        recorder.money_spent("shop", "shop-2", arm, cost)
    recorder.money_spent("shop", "shop-1", "control", units(0.125))

    told = {line for line in page(metrics).splitlines() if line.startswith("sidecar_child_cost")}
    assert told == {
        'sidecar_child_cost_usd_total{arm="active",definition_id="shop-2",sub_agent_id="shop"} 0.75',
        'sidecar_child_cost_usd_total{arm="target",definition_id="shop-2",sub_agent_id="shop"} 2.0',
        'sidecar_child_cost_usd_total{arm="control",definition_id="shop-1",sub_agent_id="shop"} 0.125',
        'sidecar_child_cost_unknown_total{definition_id="shop-2",sub_agent_id="shop"} 1.0',
    }


@requirement("PC1-D-20")
def test_prompt_size_and_the_stability_of_prefixes_are_measured() -> None:
    """Three binds of two prefixes; of more than are remembered, the oldest is new again."""
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics)
    for beginning in ("one", "one", "two"):
        recorder.surface_bound(Digest(beginning), 900)

    shown = page(metrics)
    for line in (
        'sidecar_surface_prefixes_total{prefix="repeated"} 1.0',
        'sidecar_surface_prefixes_total{prefix="new"} 2.0',
        'sidecar_surface_estimated_tokens_bucket{le="500.0"} 0.0',
        'sidecar_surface_estimated_tokens_bucket{le="1000.0"} 3.0',
    ):
        assert f"{line}\n" in shown

    for number in range(BEGINNINGS - 1):
        recorder.surface_bound(Digest(str(number)), 900)
    recorder.surface_bound(Digest("two"), 900)
    recorder.surface_bound(Digest("one"), 900)
    assert 'prefixes_total{prefix="repeated"} 2.0\n' in page(metrics)


@requirement("PC2-D-52", "PC2-D-53")
def test_an_attempt_that_is_made_again_is_no_final_error(caplog: pytest.LogCaptureFixture) -> None:
    """First one that is repeated, then the end of it; switched off, neither is an event."""
    caplog.set_level(logging.INFO, ALWAYS)
    metrics = Metrics()
    for recorder in (MeasuringRecorder(metrics, error_emit=True), MeasuringRecorder(Metrics())):
        recorder.attempt_repeated("shop")
        recorder.child_settled("shop", "failed", 1, 0.1)
        recorder.child_settled("shop", "succeeded", 0, 0.1)

    assert [each.__dict__["fields"] for each in caplog.records] == [
        {"sub_agent_id": "shop", "axis": 1, "is_final": False},
        {"sub_agent_id": "shop", "axis": 1, "is_final": True},
    ]
    assert 'sidecar_child_retries_total{sub_agent_id="shop"} 1.0' in page(metrics)
