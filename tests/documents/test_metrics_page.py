"""The page of metrics says what the modules of names say, and what the recorders count."""

import pytest

from scripts.document_metrics import PAGE, named, page
from scripts.generated_page import NotDocumented
from sidecar.observability import event_names
from sidecar.observability.metrics import Counter, Gauge, Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.rollout_recorder import MeasuringRolloutRecorder
from tests.support.requirement import requirement

MANY = 40


def test_the_page_is_current() -> None:
    """Else: `python -m scripts.document_metrics`."""
    assert PAGE.read_text("utf-8") == page()


def test_every_log_event_has_a_row() -> None:
    """With its level."""
    events = [value for name, value in vars(event_names).items() if name.isupper()]
    assert len(events) > MANY - 10
    assert [event for event in events if f"\n| `{event}` | " not in PAGE.read_text("utf-8")] == []


@requirement("PC2-OBS-6")
def test_type_and_labels_of_a_row_are_those_that_are_counted() -> None:
    """Of the metrics of turns, calls and rollouts."""
    metrics = Metrics()
    MeasuringRecorder(metrics)
    MeasuringRolloutRecorder(metrics, lambda kind, detail: None)
    rows = dict(line.removeprefix("| `").split("` | ", 1) for line in page().splitlines() if line.startswith("| `"))
    made = {each.name: each for each in metrics}
    assert len(made) > MANY
    for name, each in made.items():
        kind = "counter" if isinstance(each, Counter) else "gauge" if isinstance(each, Gauge) else "histogram"
        assert rows[name].startswith(f"{kind} | {', '.join(f'`{label}`' for label in each.labels)} | "), name


def test_a_metric_without_its_type_is_refused() -> None:
    """Which would otherwise be missing from the page."""
    with pytest.raises(NotDocumented, match=r"docstring of sidecar\.new_total"):
        list(named("names", 'NEW: Final = "sidecar.new_total"\n"""Says nothing of its type."""\n'))
