"""Refusals for a limit: counted by limit from the start, logged at a limited rate, shown by `/readyz`."""

import io
import json

from sidecar.composition.telemetry.background_reports import LimitReports
from sidecar.observability import call_names, event_names
from sidecar.observability.log_limits import MOST_LINES
from sidecar.observability.logging import logging_to
from sidecar.observability.metrics import Counter, Metrics
from sidecar.observability.redaction import Redactor


def test_every_limit_is_counted_from_the_start_and_a_storm_of_refusals_is_a_few_lines() -> None:
    """500 binds and one dispatch are refused: two kinds of lines, and one that counts the rest of the first."""
    out, metrics = io.StringIO(), Metrics()
    with logging_to(out, "json", "info", Redactor()):
        reports = LimitReports(metrics)
        (counter,) = metrics
        assert isinstance(counter, Counter)
        assert counter.series == {(limit,): 0 for limit in call_names.LIMITS}
        assert reports.counts() == {}
        for _ in range(500):
            reports.refused("turns")
        reports.refused("dispatches")

    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    told = [(line["event"], line["kind"]) for line in lines]
    assert told[:MOST_LINES] == [(event_names.REFUSED_FOR_LIMIT, "turns")] * MOST_LINES
    assert told[MOST_LINES:] == [(event_names.REFUSED_FOR_LIMIT, "dispatches"), (event_names.LOG_LEFT_OUT, "turns")]
    assert lines[-1]["count"] == 500 - MOST_LINES
    assert reports.counts() == {"turns": 500, "dispatches": 1}
