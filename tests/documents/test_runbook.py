"""Each alert of `examples/alerts` has its entry in the runbook, and is shown to fire and to stay silent."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml

from sidecar.cli.evaluation import watchdog_metrics
from sidecar.observability import call_names, names
from sidecar.observability.recorder import ALERTING
from tests.support.prometheus import ALERTS
from tests.support.requirement import requirement
from tests.support.sidecar_process import ROOT

RULES: Final = yaml.safe_load((ALERTS / "sidecar.rules.yml").read_text("utf-8"))
CASES: Final = yaml.safe_load((ALERTS / "sidecar.rules.test.yml").read_text("utf-8"))["tests"]
RUNBOOK: Final = (ROOT / "docs" / "runbook.md").read_text("utf-8")
ENTRY: Final = re.compile(r"^### (\w+)\n\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
PARTS: Final = ("**Means:** ", "**Look at:** ", "**End it:** ")
METRIC: Final = re.compile(r'__name__=~"([^"]+)"')
COUNTED: Final = re.compile(r'increase\(\{__name__=~"sidecar.anomalies_total", kind=~?"([^"]+)"\}')
OF_HISTOGRAMS: Final = re.compile(r"_(count|bucket|sum)$")
HEALTHY: Final = "a healthy sidecar"
"""How the case begins that no alert may fire in."""


def alerts() -> dict[str, Mapping[str, Any]]:
    """Return every alert by its name."""
    return {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule}


def fired() -> Iterator[str]:
    """Yield the alerts that fire in a case."""
    for case in CASES:
        yield from (asked["alertname"] for asked in case.get("alert_rule_test", ()) if asked.get("exp_alerts"))
        for asked in case.get("promql_expr_test", ()):
            yield from re.findall(r'alertname="(\w+)"', str(asked["exp_samples"]))


def healthy() -> Mapping[str, Any]:
    """Return the case without an alert."""
    (case,) = (case for case in CASES if case["name"].startswith(HEALTHY))
    return dict(case)


def test_each_alert_leads_to_its_entry_and_each_entry_has_its_alert() -> None:
    """By `runbook_url`, whose anchor is the heading."""
    entries = [name for name, _ in ENTRY.findall(RUNBOOK)]
    assert sorted(entries) == sorted(alerts())
    leads = {name: rule["annotations"]["runbook_url"] for name, rule in alerts().items()}
    assert leads == {name: f"docs/runbook.md#{name.lower()}" for name in alerts()}


@pytest.mark.parametrize(("name", "text"), ENTRY.findall(RUNBOOK), ids=lambda each: each if each.isalnum() else "")
def test_each_entry_says_what_it_means_where_to_look_and_what_ends_it(name: str, text: str) -> None:
    """In this order, each at the beginning of a line; the alert itself says what happened and what to do."""
    assert re.findall(r"^\*\*[^*]+:\*\* ", text, re.MULTILINE) == list(PARTS)
    assert set(alerts()[name]["annotations"]) == {"summary", "action", "runbook_url"}
    assert alerts()[name]["labels"]["severity"] in {"page", "ticket"}


@requirement("PC2-OBS-6")
def test_each_alert_fires_in_a_case() -> None:
    """`promtool` runs them in `tests/system/test_alert_rules.py`."""
    assert sorted(set(alerts()) - set(fired())) == []


def test_no_alert_fires_for_a_healthy_sidecar_that_shows_all_that_the_rules_read() -> None:
    """A rule whose metric were missing from that case would stay silent for want of data."""
    (asked,) = healthy()["promql_expr_test"]
    assert (asked["expr"], asked["exp_samples"]) == ('count_over_time(ALERTS{alertstate="firing"}[50m])', [])
    shown = {line["series"].partition("{")[0] for line in healthy()["input_series"]}
    read = {metric for name in alerts() for metric in METRIC.findall(alerts()[name]["expr"])}
    assert sorted(metric for metric in read if not any(re.fullmatch(metric, each) for each in shown)) == []


def test_each_rule_reads_a_metric_that_the_sidecar_has() -> None:
    """By its name with dots, in one of the modules of names, or in that of the watchdog, a program of its own."""
    of_names = (names, call_names, watchdog_metrics)
    values = [value for module in of_names for value in vars(module).values()]
    known = {value for value in values if isinstance(value, str)}
    told = {OF_HISTOGRAMS.sub("", metric) for metric in METRIC.findall(str(RULES))}
    assert sorted(told - known) == []


def test_an_anomaly_counts_from_the_first_one_on() -> None:
    """`increase` does not see the value with which a series begins: it is there at 0, or its first value fires, too."""
    by_growth_alone = [rule["expr"] for rule in alerts().values() if "unless" not in rule["expr"]]
    kinds = {kind for expr in by_growth_alone for group in COUNTED.findall(expr) for kind in group.split("|")}
    assert sorted(kinds - set(ALERTING)) == []
