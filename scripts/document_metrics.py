"""Writes `docs/metrics.md`, the reference of metrics and log events, from the names in `sidecar/observability`.

`--check` only compares.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from scripts.generate_protos import REPOSITORY
from scripts.generated_page import NotDocumented, write_or_check

PAGE: Final = REPOSITORY / "docs/metrics.md"
FOLDER: Final = REPOSITORY / "sidecar/observability"
OF_METRICS: Final = ("names", "call_names")
OF_EVENTS: Final = "event_names"
METRIC: Final = re.compile(
    r"(?P<meaning>.+?) (?P<kind>Counter|Gauge|Histogram)(?:; (?P<labels>\w+(?:, \w+)*))?\.(?: Source: .+)?"
)
EVENT: Final = re.compile(r"(?P<meaning>.+?) Level: (?P<kind>[^.]+)\.(?: Source: .+)?")
GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Sub-agents": ("sidecar.child.", "sidecar.calls.", "sidecar.dispatch.", "sidecar.dispatches_of_vertical"),
    "Turns and conversations": ("sidecar.turn", "sidecar.episode.", "sidecar.surface."),
    "Data services": ("sidecar.gateway.", "ps6."),
    "Rollouts": ("subagent.", "sidecar.rollout.", "sidecar.flags.", "sidecar.definitions.", "sidecar.audit."),
    "Record": ("sidecar.record.",),
    "Process": ("",),
}
"""Beginnings of names by heading. A name belongs to the first group that has its beginning."""
HEAD: Final = """# Metrics and log events

Made from the modules of names in `sidecar/observability` by `python -m scripts.document_metrics`; do not edit.
[Operations](operations.md#metrics) says where they are served, the [runbook](runbook.md) what to do at each alert.

Prometheus 3 gets the names below; older versions get `_` in place of `.`. A name ends with its unit, if it has one. No
label contains a user, an episode, a turn, or a value that a client or a runner host chooses. A metric has at most 2,000
series; further ones are counted together as `other`. The
[ramp watchdog](ramp-watchdog.md#see-that-it-lives) is a process of its own, with metrics of its own.
"""
EVENTS_HEAD: Final = """
## Log events

Values of the field `event`. *Always* means that the event is logged at any `log.level`.

| event | level | meaning |
|---|---|---|
"""


class Named(NamedTuple):
    """A metric, or a log event.

    Attributes:
        kind: Counter, Gauge or Histogram; the level of an event.
        labels: of a metric, separated by commas; empty for none.
    """

    name: str
    meaning: str
    kind: str
    labels: str = ""


def page() -> str:
    """Return the text of the page."""
    metrics = [each for module in OF_METRICS for each in named(module, (FOLDER / f"{module}.py").read_text("utf-8"))]
    events = named(OF_EVENTS, (FOLDER / f"{OF_EVENTS}.py").read_text("utf-8"))
    return "".join([HEAD, *_groups(metrics), EVENTS_HEAD, *map(_event, sorted(events))])


def named(module: str, text: str) -> Iterator[Named]:
    """Yield what a module of names documents; constants whose value has no dot are values of labels.

    Raises:
        NotDocumented: a docstring has not the form `MEANING. Counter; LABELS. Source: …` or `MEANING. Level: ….`
    """
    form = EVENT if module == OF_EVENTS else METRIC
    body = ast.parse(text).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        match statement:
            case ast.AnnAssign(target=ast.Name(), value=ast.Constant(value=str(name))) if _is_name(name):
                found = form.fullmatch(" ".join(_text(following).split()))
                if found is None:
                    raise NotDocumented(f"{module}: the docstring of {name} has to be like `{form.pattern}`")
                yield Named(name, **{part: text or "" for part, text in found.groupdict().items()})


def _is_name(name: str) -> bool:
    return "." in name and not name.startswith("gen_ai.")  # those are of spans


def _text(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
        case _:
            return ""


def _groups(metrics: list[Named]) -> Iterator[str]:
    left = sorted(metrics)
    for title, beginnings in GROUPS.items():
        yield f"\n## {title}\n\n| metric | type | labels | meaning and use |\n|---|---|---|---|\n"
        yield from (_metric(each) for each in left if each.name.startswith(beginnings))
        left = [each for each in left if not each.name.startswith(beginnings)]


def _metric(metric: Named) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels.split(", ") if label)
    return f"| `{metric.name}` | {metric.kind.lower()} | {labels} | {metric.meaning.removesuffix('.')} |\n"


def _event(event: Named) -> str:
    return f"| `{event.name}` | {event.kind} | {event.meaning.removesuffix('.')} |\n"


def main() -> int:
    """Write the page, or say that it is not current."""
    return write_or_check(PAGE, page())


if __name__ == "__main__":
    sys.exit(main())
