"""Lays out one turn as a waterfall diagram for `turns_page`: a bar for each child on a common time axis.

A child is the execution of one call. `Any` in the signatures is a message of `record.proto`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sidecar.cli.output.drawing import clean, utc
from sidecar.cli.output.json_output import enum_word
from sidecar.cli.output.turn_timeline import as_tree, cost_in_words, short, state_of
from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.executing.events import CLOSED, FAILED, WAITING_FOR_MERGE
from subagents.errors.v1 import error_reason_pb2
from subagents.history.v1 import record_pb2

WHOLE: Final = 100.0
"""The length of the axis, in percent."""
LEAST: Final = 0.5
"""The least width of a bar in percent of the axis: a child of a millisecond must stay visible."""
LONGEST: Final = 4000
"""The most characters of a text that a page shows."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a child. `offset` is in seconds since the begin of the turn."""

    offset: float
    name: str
    actor: str
    summary: str


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of one child.

    Attributes:
        depth: 0 if the orchestrator called it, greater if another sub-agent called it.
        begin, running, waiting: in percent of the axis: when it began, how long it ran, and how long its result then
            waited until the parent decided about it.
        outcome: the outcome of its call; None: there is none yet.
        reason: why its call did not succeed; empty: it succeeded.
        contract: what it may do and for how long, as formatted JSON; empty if the record does not have it.
        notes: numbers of attempts, tool calls and delegations.
    """

    child: Any
    depth: int
    state: str
    begin: float
    running: float
    waiting: float
    outcome: Any
    reason: str
    definition: str
    digest: str
    tokens: str
    cost: str
    notes: str
    contract: str
    events: list[Event]


@dataclass(frozen=True, slots=True)
class Waterfall:
    """A turn as a diagram.

    Attributes:
        seconds: length of the time axis.
        not_run: outcomes of calls that were never executed, and so have no bar.
    """

    bars: list[Bar]
    seconds: float
    not_run: list[Any]
    is_open: bool


def waterfall_of(turn: Any, now: datetime) -> Waterfall:
    """Return the diagram of a turn. The axis of an open turn ends at `now`."""
    # The earliest and the latest of all times: the clocks of replicas may differ, and no bar may leave the axis.
    begin = min([utc(turn.turn.started_at), *(utc(child.opened_at) for child in turn.children)])
    ended = turn.turn.HasField("ended_at")
    events = [utc(event.occurred_at) for child in turn.children for event in child.events]
    end = max([utc(turn.turn.ended_at) if ended else now, begin, *events])
    # At least a millisecond: `_Axis.at` divides by the length.
    axis = _Axis(begin, max((end - begin).total_seconds(), 0.001))
    outcomes = {each.child_id: each for dispatch in turn.dispatches for each in dispatch.outcomes if each.child_id}
    bars = [_bar(child, depth, outcomes.get(child.child_id), axis) for depth, child in as_tree(turn.children)]
    # Refused, dropped or not started: they have an outcome, but no child.
    not_run = [each for dispatch in turn.dispatches for each in dispatch.outcomes if not each.child_id]
    return Waterfall(bars, axis.seconds, not_run, not ended)


@dataclass(frozen=True, slots=True)
class _Axis:
    begin: datetime
    seconds: float

    def at(self, moment: datetime) -> float:
        """Return the position of a time, from 0 to 100 percent; a time outside the axis is moved to the nearer end."""
        share = (moment - self.begin).total_seconds() / self.seconds * WHOLE
        return round(min(max(share, 0.0), WHOLE), 2)


def _bar(child: Any, depth: int, outcome: Any, axis: _Axis) -> Bar:
    # A child's work ends when its result waits for the parent, or the child fails. The parent's decision closes it.
    work_ends = [utc(event.occurred_at) for event in child.events if event.name in {WAITING_FOR_MERGE, FAILED}]
    closings = [utc(event.occurred_at) for event in child.events if event.name == CLOSED]
    # A child that began just now is drawn inside the axis, too.
    begin = min(axis.at(utc(child.opened_at)), WHOLE - LEAST)
    # A child that is not closed runs or waits until now, the end of the axis.
    end = axis.at(closings[0]) if closings else WHOLE
    work_end = max(axis.at(work_ends[0]) if work_ends else end, begin + LEAST)
    contract = _object(child.contract_json)
    definition, digest = _definition(contract)
    usage = outcome.usage if outcome is not None and outcome.HasField("usage") else None
    return Bar(
        child=child,
        depth=depth,
        state=state_of(child),
        begin=begin,
        running=round(work_end - begin, 2),
        waiting=round(max(end - work_end, 0.0), 2),
        outcome=outcome,
        reason="" if outcome is None else reason_of(outcome),
        definition=definition,
        digest=digest,
        tokens="" if usage is None else f"{usage.input_tokens} in, {usage.output_tokens} out",
        cost="" if usage is None else cost_in_words(usage),
        notes=", ".join(_notes(child, outcome)),
        # Formatted again: the record has it on one line.
        contract=clipped(json.dumps(contract, indent=2, ensure_ascii=False)) if contract else "",
        events=[_event(event, axis) for event in child.events],
    )


def reason_of(outcome: Any) -> str:
    """Return why a call did not succeed; empty if it succeeded."""
    return enum_word(error_reason_pb2.ErrorReason, outcome.status.reason) if outcome.HasField("status") else ""


def clipped(text: str) -> str:
    """Return the text, shortened to what a page shows."""
    lines = "\n".join(map(clean, text.splitlines()))
    return lines if len(lines) <= LONGEST else f"{lines[:LONGEST]} … ({len(lines) - LONGEST} more characters)"


def _event(event: Any, axis: _Axis) -> Event:
    offset = (utc(event.occurred_at) - axis.begin).total_seconds()
    actor = enum_word(record_pb2.EventActor, event.actor).replace("_", "-")
    return Event(offset, clean(short(event.name)), actor, clean(event.summary))


def _notes(child: Any, outcome: Any) -> Iterator[str]:
    # The record's events are the only source of these numbers; a group is found by how the names of its events begin.
    if outcome is not None and outcome.attempts > 1:
        yield f"{outcome.attempts} attempts"
    for word, names in (("tool calls", ("tool", "effect", "data")), ("delegations", ("delegat",))):
        count = sum(short(event.name).startswith(names) for event in child.events)
        if count:
            yield f"{count} {word} on record"


def _definition(contract: dict[str, Any]) -> tuple[str, str]:
    """Return id and digest of the definition that a contract names, at its top level or one level below."""
    for part in (contract, *(each for each in contract.values() if isinstance(each, dict))):
        if isinstance(part.get("definition_digest"), str):
            return str(part.get("definition_id", "")), part["definition_digest"]
    return "", ""


def _object(text: str) -> dict[str, Any]:
    """Return JSON text as an object. Text that is no JSON object gives an empty one: the page shows the rest anyway."""
    try:
        decoded = from_json(text) if text else {}
    except DecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
