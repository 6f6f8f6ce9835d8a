"""Lanes that are given up, and operations without credit: counted from the start, and in the log with what was lost."""

import io
import json
from datetime import UTC, datetime

from sidecar.composition.lanes import NAMED, LaneReports
from sidecar.core.session.outgoing import Credit
from sidecar.core.session.stalls import Stall
from sidecar.observability import event_names, names
from sidecar.observability.logging import logging_to
from sidecar.observability.metrics import Counter, Metrics
from sidecar.observability.redaction import Redactor
from sidecar.rpc.session.rules import LaneCounts

WHEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def test_a_stalled_lane_is_counted_and_one_line_says_what_it_carried() -> None:
    """`sidecar.session.stalls_total` rises from 0; the line has the lane, its oldest operations and what was lost."""
    out, metrics = io.StringIO(), Metrics()
    with logging_to(out, "json", "info", Redactor()):
        reports = LaneReports(metrics, LaneCounts())
        assert counter(metrics, names.LANE_STALLS) == {(): 0}
        reports.stalled(Stall("lane-1", WHEN, tuple(range(1, 41)), 70_000))
    assert counter(metrics, names.LANE_STALLS) == {(): 1}
    (line,) = [json.loads(line) for line in out.getvalue().splitlines()]
    assert (line["event"], line["level"], line["lane_id"]) == (event_names.LANE_STALLED, "warning", "lane-1")
    assert (line["operations"], line["dropped_bytes"]) == (40, 70_000)
    assert line["oldest"] == list(range(1, NAMED + 1))


def test_operations_without_credit_are_counted_by_whose_credit_is_missing() -> None:
    """Both series are there before anything is missing, so that an alert on a rise works from the first one on."""
    metrics = Metrics()
    reports = LaneReports(metrics, LaneCounts())
    reports.out_of_credit(Credit.LANE)
    assert counter(metrics, names.LANE_CREDIT) == {("operation",): 0, ("lane",): 1}


def counter(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """Return the series of a counter."""
    (found,) = [each for each in metrics if isinstance(each, Counter) and each.name == name]
    return dict(found.series)
