"""What was recorded of a turn, drawn: a bar per child, and the routing decision in a few words."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from rich.text import Text

from subagents_client import CandidateVerdict, Outcome, RoutedCall, RoutingDecision

BAR: Final = 30
"""Characters between the first start and the last end of a turn."""
SLOT_STYLE: Final = {"shop": "cyan", "rewards": "magenta", "support": "yellow"}
OUTCOME_STYLE: Final = {
    Outcome.SUCCEEDED: "green",
    Outcome.DEGRADED: "yellow",
    Outcome.FAILED: "red",
    Outcome.DROPPED: "yellow",
}
OUTCOME_MARK: Final = {Outcome.SUCCEEDED: "✓", Outcome.DEGRADED: "◐", Outcome.FAILED: "✗", Outcome.DROPPED: "⊘"}


def turn_lines(number: int, title: str, routing: RoutingDecision) -> Iterator[Text]:
    """Yield the lines of one turn."""
    yield Text.assemble((f" {number}  {title}", "bold"), (f" · {_own_time(routing)}" if routing.calls else "", "dim"))
    spans = [(one.started_at, one.settled_at) for one in routing.calls if one.started_at and one.settled_at]
    begin = min((start for start, _ in spans), default=None)
    whole = max((end for _, end in spans), default=None)
    for call in routing.calls:
        yield _call_line(call, begin, whole)
    if not routing.calls:
        yield Text("    no calls", style="dim")
    yield Text.assemble(("    candidates: ", "dim"), *_candidates(routing))
    yield Text(f"    {_facts(routing)}", style="dim")


def _call_line(call: RoutedCall, begin: datetime | None, end: datetime | None) -> Text:
    style = SLOT_STYLE.get(call.sub_agent_id, "white")
    mark, mark_style = OUTCOME_MARK.get(call.outcome, "·"), OUTCOME_STYLE.get(call.outcome, "white")
    line = Text.assemble("    ", (f"{call.sub_agent_id:<8}", style), " ")
    if begin is None or end is None or call.started_at is None or call.settled_at is None:
        line.append(f"{'not run':^{BAR}}", "dim")
        line.append(f" {'':>8}  ")
    else:
        before, length = bar(call.started_at, call.settled_at, begin, end)
        line.append(" " * before + "━" * length + " " * (BAR - before - length), style)
        line.append(f" {milliseconds(call.settled_at - call.started_at):>8}  ", "bold")
    line.append(f"{mark} {call.outcome}", mark_style)
    line.append(_remarks(call), "dim")
    return line


def bar(start: datetime, end: datetime, first: datetime, last: datetime) -> tuple[int, int]:
    """Return how many characters come before a bar, and how many it has: at least one, within `BAR`."""
    whole = max((last - first).total_seconds(), 1e-6)
    before = min(BAR - 1, round((start - first).total_seconds() / whole * BAR))
    return before, max(1, min(BAR - before, round((end - start).total_seconds() / whole * BAR)))


def milliseconds(span: timedelta) -> str:
    """Return a duration such as `812 ms` or `2.41 s`."""
    seconds = span.total_seconds()
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _remarks(call: RoutedCall) -> str:
    parts: list[str] = []
    if call.reason:
        parts.append(call.reason)
    if call.attempts > 1:
        parts.append(f"{call.attempts} attempts")
    if call.status_events:
        parts.append(f"{call.status_events} report{'s' if call.status_events > 1 else ''}")
    return "".join(f" · {part}" for part in parts)


def _candidates(routing: RoutingDecision) -> Iterator[str | tuple[str, str]]:
    for place, one in enumerate(routing.candidates):
        chosen = one.verdict is CandidateVerdict.CHOSEN
        yield (" · " if place else "", "dim")
        yield (one.sub_agent_id, SLOT_STYLE.get(one.sub_agent_id, "white") if chosen else "dim")
        yield (f" {str(one.verdict).replace('_', ' ')}", "dim")


def _facts(routing: RoutingDecision) -> str:
    declared = sum(report.declared for report in routing.intents)
    facts = [
        f"{len(routing.calls)} call{'' if len(routing.calls) == 1 else 's'}, cap {routing.fan_out_cap} ({routing.cap})",
        f"intents {declared} declared, {routing.intent_count} called",
    ]
    if any(report.switched for report in routing.intents):
        facts.append("intent switch")
    if not routing.gate_passed:
        facts.append("not all completed")
    return " · ".join(facts)


def _own_time(routing: RoutingDecision) -> str:
    """Return how long the turn was in the sidecar without waiting for a sub-agent."""
    own = routing.overhead.total_seconds() * 1000
    return f"sidecar's own time {f'{own:.1f} ms' if own else 'under 1 ms'}"
