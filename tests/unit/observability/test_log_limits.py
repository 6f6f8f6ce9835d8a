"""Warnings and errors of one kind are limited, and what was left out is counted."""

import io
import json
import logging
from typing import Any

from sidecar.observability import event_names, names
from sidecar.observability.log_limits import MOST_KINDS, MOST_LINES, PERIOD, LineLimit
from sidecar.observability.logging import ALWAYS, StructuredLog, logging_to
from sidecar.observability.metrics import Counter, Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor


class HandClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        """Begin somewhere."""
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.now


def written(out: io.StringIO) -> list[dict[str, Any]]:
    """Return the lines of a log in JSON."""
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_thousands_of_warnings_of_one_kind_become_a_few_lines_and_one_that_counts_the_rest() -> None:
    """7,028 anomalies of one kind, each with a detail of its own, and one of another kind; each is counted."""
    out, metrics = io.StringIO(), Metrics()
    with logging_to(out, "json", "info", Redactor()) as log:
        recorder = MeasuringRecorder(metrics)
        for number in range(7028):
            recorder.anomaly("reap_failed", f"turn-{number}: STORE_UNAVAILABLE")
        recorder.anomaly("breaker_opened", "unix:/run/shop.sock")

    lines = written(out)
    assert [line.get("kind") for line in lines[: MOST_LINES + 1]] == [*["reap_failed"] * MOST_LINES, "breaker_opened"]
    (summary,) = lines[MOST_LINES + 1 :]
    assert (summary["event"], summary["of"], summary["kind"]) == (
        event_names.LOG_LEFT_OUT,
        event_names.ANOMALY,
        "reap_failed",
    )
    assert summary["count"] == log.limit.left_out == 7028 - MOST_LINES
    (counted,) = [metric for metric in metrics if metric.name == names.ANOMALIES]
    assert isinstance(counted, Counter)
    assert counted.series[("reap_failed",)] == 7028


def test_a_kind_is_heard_again_once_its_period_is_over() -> None:
    """The line that says how many were left out comes with the end of the period, and the next ones are written."""
    clock = HandClock()
    limit = LineLimit(clock)
    record = logging.makeLogRecord({"name": "a", "levelno": logging.WARNING, "msg": "the disk is full"})

    first = [limit.passes(record) for _ in range(MOST_LINES + 5)]
    assert (first.count(True), limit.due_in(), list(limit.summaries())) == (MOST_LINES, PERIOD, [])

    clock.now += PERIOD
    (summary,) = limit.summaries()
    assert vars(summary)["fields"]["count"] == 5
    assert (limit.passes(record), list(limit.summaries()), limit.left_out) == (True, [], 5)


def test_the_count_survives_a_writer_that_is_stuck() -> None:
    """Nothing was summed up at the end of the period, and more came: what was left out is still told later."""
    clock = HandClock()
    limit = LineLimit(clock)
    record = logging.makeLogRecord({"name": "a", "levelno": logging.ERROR, "msg": "broken"})
    for _ in range(MOST_LINES + 3):
        limit.passes(record)
    clock.now += PERIOD

    assert limit.passes(record)
    assert [vars(each)["fields"]["count"] for each in limit.summaries()] == [3]


def test_decisions_incidents_and_information_are_never_limited() -> None:
    """Whatever their number: routing decisions and incidents go by the logger that nothing silences."""
    out = io.StringIO()
    with logging_to(out, "json", "info", Redactor()):
        for _ in range(3 * MOST_LINES):
            StructuredLog(ALWAYS).error(event_names.SECURITY_INCIDENT, "withheld", reason="principal_mismatch")
            StructuredLog("test").info("test.event", "something happened")
    assert len(written(out)) == 6 * MOST_LINES


def test_one_kind_never_silences_another() -> None:
    """Causes of refusals, types of errors, lines of libraries: each has a limit of its own."""
    out = io.StringIO()
    with logging_to(out, "json", "info", Redactor()):
        events = StructuredLog("test")
        for cause in ("expired", "signature"):
            for _ in range(2 * MOST_LINES):
                events.warning("test.refused", "not let in", cause=cause)
        for error in (ValueError("x"), KeyError("y")):
            for _ in range(2 * MOST_LINES):
                events.error("test.failed", "a call failed inside", error)
                logging.getLogger("library").warning("retry %s", error)
    summaries = [line for line in written(out) if line["event"] == event_names.LOG_LEFT_OUT]
    assert [line["count"] for line in summaries] == [MOST_LINES] * 2 + [MOST_LINES, 3 * MOST_LINES, MOST_LINES]


def test_the_kinds_that_are_told_apart_are_bounded() -> None:
    """Whoever invents kinds does not fill the memory: the further ones share one limit."""
    limit = LineLimit(HandClock())
    for number in range(3 * MOST_KINDS):
        limit.passes(logging.makeLogRecord({"name": "a", "levelno": logging.WARNING, "msg": f"kind {number}"}))
    assert len(limit._periods) == MOST_KINDS + 1
    assert limit.left_out == 2 * MOST_KINDS - MOST_LINES
