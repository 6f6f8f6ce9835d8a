"""Writes `docs/drill.md` from the incidents: `python -m tests.system.drill.page`."""

from collections.abc import Iterator
from typing import Final

from tests.support.sidecar_process import ROOT
from tests.system.drill.incidents import INCIDENTS, Incident
from tests.system.drill.rules import FASTER, time_of

DOCUMENT: Final = ROOT / "docs" / "drill.md"
SCREENSHOTS: Final = ROOT / "docs" / "drill"
HEAD: Final = f"""# The drill: ten incidents

What a person on call sees of ten incidents, and the one action that ends each. `tests/system/drill` plays them: two
sidecar processes on one PostgreSQL, sub-agents and a data service with steady traffic, a Prometheus with the
[alert rules](../examples/alerts/sidecar.rules.yml), and the [console](console.md). The test plants each incident while
its alert is silent, waits for alert, panel and page, takes the action, and waits until the alert has ended.

So that the drill takes minutes and not hours, the windows, delays and time limits of the rules are divided by {FASTER}.
`make test` plays three incidents without a browser, `make torture` all. To play all of them alone, and write the
screenshots anew:

```sh
SIDECAR_TORTURE_DRILL=10 SIDECAR_WRITE_SCREENSHOTS=1 make test ARGS="-k one_action"
```

| incident | alert | dashboard and panel | console | action |
|---|---|---|---|---|
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
    return f"| [{title}](#{incident.name}) | {alert} | {where} | *Now* | {incident.ends} |"


def _section(incident: Incident) -> Iterator[str]:
    dashboard, title, level = incident.panel
    holds = time_of(incident.alert)
    yield f"## {_title(incident)}\n"
    yield f"{incident.happens}\n"
    after = f" once its condition has held for {holds}" if holds else " at the next evaluation"
    yield f"- **Alert:** [`{incident.alert}`](runbook.md#{incident.alert.lower()}) fires{after}."
    yield f"- **Panel:** *{title}* of `{dashboard}.json`; a series is {level}."
    yield f"- **Action:** {incident.ends}. The alert ends.\n"
    yield f"![{incident.happens}](drill/{incident.name}.png)\n"


def _title(incident: Incident) -> str:
    return incident.name.replace("-", " ").capitalize()


if __name__ == "__main__":
    DOCUMENT.write_text(page(), encoding="utf-8")
