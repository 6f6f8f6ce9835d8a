"""Writes `docs/drill.md` from the incidents: `python -m tests.system.drill.page`."""

from collections.abc import Iterator
from typing import Final

from tests.support.scraped import panel_unit
from tests.support.sidecar_process import ROOT
from tests.system.drill.incidents import INCIDENTS, Incident
from tests.system.drill.rules import FASTER, time_of

DOCUMENT: Final = ROOT / "docs" / "drill.md"
SCREENSHOTS: Final = ROOT / "docs" / "drill"
UNITS: Final = {"s": " s", "reqps": " per second"}
HEAD: Final = f"""# The drill: ten incidents

What a person on call sees of ten incidents, and the one action that ends each. `tests/system/drill` plays them: two
sidecar processes on one PostgreSQL, sub-agents and a data service with steady traffic, a Prometheus with the
[alert rules](../examples/alerts/sidecar.rules.yml), and the [console](console.md). The test plants each incident while
its alert is silent, waits until the alert fires and until dashboard and console show the incident, takes the action,
and waits until the alert has ended. The console shows each incident on its page [*Now*](console.md#now).

The drill divides the windows, delays and time limits of the alert rules by {FASTER}, so that it takes minutes and not
hours. Below, the delay of each alert (`1m`) is the undivided one of the rules. The value of each panel is what the
drill waits for, not the limit of the alert.

`make test` plays three incidents without a browser, `make torture` all. To play all of them alone, and write the
screenshots anew:

```sh
SIDECAR_TORTURE_DRILL=10 SIDECAR_WRITE_SCREENSHOTS=1 make test ARGS="-k one_action"
```

| incident | alert | dashboard and panel | action |
|---|---|---|---|
"""


def page() -> str:
    """Return the whole page."""
    rows = "".join(f"{row}\n" for row in map(_row, INCIDENTS))
    return HEAD + rows + "\n" + "\n".join(line for each in INCIDENTS for line in _section(each))


def _row(incident: Incident) -> str:
    dashboard, title, _ = incident.panel
    alert = f"[`{incident.alert}`](runbook.md#{incident.alert.lower()})"
    where = f"`{dashboard}.json`: {title}"
    title = _title(incident)
    return f"| [{title}](#{incident.name}) | {alert} | {where} | {incident.ends} |"


def _section(incident: Incident) -> Iterator[str]:
    dashboard, title, level = incident.panel
    holds = time_of(incident.alert)
    yield f"## {_title(incident)}\n"
    yield f"{incident.happens}\n"
    after = f" once its condition has held for {holds}" if holds else " at the next evaluation"
    yield f"- **Alert:** [`{incident.alert}`](runbook.md#{incident.alert.lower()}) fires{after}."
    shown = _with_unit(level, panel_unit(dashboard, title))
    yield f"- **Panel:** *{title}* of `{dashboard}.json`; in the drill, a series is {shown}."
    yield f"- **Action:** {incident.ends}. The alert ends.\n"
    yield f"![{incident.happens}](drill/{incident.name}.png)\n"


def _with_unit(level: str, unit: str) -> str:
    relation, _, number = level.partition(" ")
    shown = f"{100 * float(number):g} %" if unit == "percentunit" else f"{number}{UNITS.get(unit, '')}"
    return shown if relation == "==" else f"{relation} {shown}"


def _title(incident: Incident) -> str:
    return incident.name.replace("-", " ").capitalize()


if __name__ == "__main__":
    DOCUMENT.write_text(page(), encoding="utf-8")
