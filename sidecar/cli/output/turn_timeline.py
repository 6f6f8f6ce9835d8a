"""Draws a turn as a timeline: a bar for each child (execution of a call), and a line for each event. Source: SX-40."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from sidecar.cli.output.drawing import GlyphSet, Part, TextLine, begin_of, clean, length, timestamp, utc
from sidecar.cli.output.json_output import enum_word, message_to_json
from sidecar.core.decoding import DecodeError, from_json
from sidecar.core.executing.events import CLOSED, FAILED, STATE_AFTER, WAITING_FOR_MERGE
from subagents.dispatch.v1 import outcome_pb2
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import record_pb2

LABEL: Final = 26
"""Width of the name of a child, before its bar."""
BAR_LEAST: Final = 20
"""The least width of a bar. All widths are in characters."""
TAIL: Final = 34
"""Width of the result of a child, after its bar."""
STYLE_OF: Final = {"completed": "green", "failed": "red", "running": "cyan", "waiting_for_merge": "yellow"}
DEEPEST: Final = 32
"""The deepest indentation of delegated children; a damaged record could have any depth."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """The options of a timeline.

    Attributes:
        marks: the characters of bars.
        width: of a line.
        now: the end of the axis of an open turn.
        expand: whether all details of events are shown.
        events: whether each event gets a line; otherwise only bars are drawn.
    """

    marks: GlyphSet
    width: int
    now: datetime
    expand: bool = False
    events: bool = True


@dataclass(frozen=True, slots=True)
class Axis:
    """The time axis of the bars: `cells` characters from `begin` to `end`."""

    begin: datetime
    end: datetime
    cells: int

    def cell(self, at: datetime) -> int:
        """Return the position of a time, from 0 to `cells`; a time outside the axis is moved to the nearer end."""
        total = (self.end - self.begin).total_seconds()
        share = (at - self.begin).total_seconds() / total if total > 0 else 0.0
        return min(max(int(share * self.cells), 0), self.cells)


def turn_lines(turn: pb.GetTurnResponse, drawing: Drawing) -> Iterator[TextLine]:
    """Yield the lines of a turn: its head, then for each child a bar, its events and its scores."""
    axis = _axis(turn, drawing)
    yield from _head(turn, axis)
    yield [Part(" " * LABEL), *_scale(axis)]
    outcomes = {each.child_id: each for dispatch in turn.dispatches for each in dispatch.outcomes if each.child_id}
    for depth, child in as_tree(turn.children):
        yield _child(child, depth, outcomes.get(child.child_id), axis, drawing)
        if drawing.expand:
            yield from _pretty("contract", child.contract_json, 4)
        if drawing.events:
            for event in child.events:
                yield event_line(event, axis.begin, "    ")
                if drawing.expand:
                    yield from _pretty("", event.details_json, 8)
        if child.answered_in_turn_id:
            yield [Part(f"    its question was answered in turn {clean(child.answered_in_turn_id)}", "cyan")]
        yield from _scores(turn, child, axis.begin)
    yield from _not_run(turn)
    if drawing.expand:
        yield from _end(turn)
    # An incomplete answer must not look complete.
    if turn.texts_left_out or turn.events_left_out:
        yield [
            Part(
                f"{turn.texts_left_out} long texts and {turn.events_left_out} events did not fit into one answer; "
                "see single children with --child, or all events with --follow",
                "yellow",
            )
        ]


def _scores(turn: pb.GetTurnResponse, child: record_pb2.RecordedChild, begin: datetime) -> Iterator[TextLine]:
    """Yield a line for each score of a call."""
    for score in turn.scores:
        # A score is about a call of the orchestrator. Delegated children share the ids of the call they belong to.
        if child.parent_child_id or (score.dispatch_id, score.call_id) != (child.dispatch_id, child.call_id):
            continue
        offset = (utc(score.recorded_at) - begin).total_seconds()
        label = f" ({clean(score.label)})" if score.label else ""
        by = f"{enum_word(record_pb2.ScoreSource, score.source)} {clean(score.recorded_by)}".rstrip()
        why = f": {clean(score.explanation)}" if score.explanation else ""
        yield [
            Part("    "),
            Part(f"{offset:+9.3f}  ", "dim"),
            Part(f"score {clean(score.name)} {score.value:g}{label} by {by}{why}", "cyan"),
        ]


def as_tree(children: Sequence[record_pb2.RecordedChild]) -> Iterator[tuple[int, record_pb2.RecordedChild]]:
    """Yield each child once, with its depth, in order of emission; delegated children follow their parent."""
    child_ids = {child.child_id for child in children}
    below: dict[str, list[record_pb2.RecordedChild]] = {}
    for child in sorted(children, key=lambda each: each.emission_index):
        # With --child, the parent may not be in the answer; the child is then drawn at the top.
        parent = child.parent_child_id if child.parent_child_id in child_ids else ""
        below.setdefault(parent, []).append(child)
    # A stack and not a recursion: the depth comes from a record, which may be damaged.
    waiting = [(0, child) for child in reversed(below.pop("", []))]
    while waiting:
        depth, child = waiting.pop()
        yield depth, child
        # `pop`: every child is yielded only once, whatever parents the record names.
        waiting += [(min(depth + 1, DEEPEST), each) for each in reversed(below.pop(child.child_id, []))]
    for left_over in below.values():  # parents of each other: no sidecar records this, but it must not be hidden
        yield from ((0, child) for child in left_over)


def event_line(event: record_pb2.ChildEvent, begin: datetime, label: str) -> TextLine:
    """Return one event as a line: `label`, the seconds since `begin`, name, actor and summary."""
    offset = (utc(event.occurred_at) - begin).total_seconds()
    name = short(event.name)
    return [
        Part(label),
        Part(f"{offset:+9.3f}  ", "dim"),
        Part(f"{clean(name):<21} ", STYLE_OF.get(str(STATE_AFTER.get(event.name, "")), "")),
        Part(f"{enum_word(record_pb2.EventActor, event.actor):<10} ", "dim"),
        Part(clean(event.summary)),
    ]


def short(name: str) -> str:
    """Return the name of an event without the prefix that all names have."""
    return name.removeprefix("agent.").removeprefix("subagent_")


def state_of(child: record_pb2.RecordedChild) -> str:
    """Return the status of a child; once it is closed, its final status."""
    # `closed` alone would hide whether the child succeeded.
    if child.events and child.events[-1].name == CLOSED:
        return str(_object(child.events[-1].details_json).get("final_status", "closed"))
    states = [STATE_AFTER[event.name].value for event in child.events if event.name in STATE_AFTER]
    return states[-1] if states else "created"


def _axis(turn: pb.GetTurnResponse, drawing: Drawing) -> Axis:
    begin = begin_of(turn)
    ends = [utc(event.occurred_at) for child in turn.children for event in child.events]
    ended = turn.turn.HasField("ended_at")
    # Events may be later than the end of the turn, and clocks of two sidecars may differ: every bar must fit.
    end = max([utc(turn.turn.ended_at) if ended else drawing.now, begin, *ends])
    return Axis(begin, end, max(drawing.width - LABEL - TAIL, BAR_LEAST))


def _head(turn: pb.GetTurnResponse, axis: Axis) -> Iterator[TextLine]:
    """Yield the lines about the whole turn: state, duration, user, dispatches, cost."""
    row = turn.turn
    state = enum_word(record_pb2.TurnState, row.state)
    took = length(axis.end - axis.begin)
    yield [
        Part("turn ", "dim"),
        Part(clean(row.turn_id), "bold"),
        Part(f"  {state}", "red" if state == "lost" else "green" if state == "ended" else "cyan"),
        Part(f"  {took}  {timestamp(axis.begin)} UTC", "dim"),
    ]
    yield [Part(f"episode {clean(row.episode_id)}  principal {clean(row.principal)}", "dim")]
    for dispatch in turn.dispatches:
        settled = f"{len(dispatch.outcomes)} of {dispatch.call_count} calls settled"
        remarks = f", taken over {dispatch.takeover_count} times" if dispatch.takeover_count else ""
        if dispatch.principal_source == record_pb2.PRINCIPAL_SOURCE_USER_TOKEN:
            remarks += ", user verified by token"
        alive = "" if dispatch.owner_alive else " (not running any more)"
        text = (
            f"dispatch {clean(dispatch.dispatch_id)}: {settled}, by {clean(dispatch.owner_instance_id)}{alive}{remarks}"
        )
        yield [Part(text, "dim")]
    yield from _cost(turn)


def cost_in_words(usage: outcome_pb2.TokenUsage) -> str:
    """Return the cost of tokens; an unknown cost is not shown as zero."""
    return f"${usage.cost_usd}" if usage.HasField("cost_usd") else "cost unknown"


def _cost(turn: pb.GetTurnResponse) -> Iterator[TextLine]:
    """Yield the cost of the calls of the turn, if any of them reported tokens."""
    # Decimal text, not floats: sums of money are shown to the last digit.
    usages = [each.usage for dispatch in turn.dispatches for each in dispatch.outcomes if each.HasField("usage")]
    known = [Decimal(usage.cost_usd) for usage in usages if usage.HasField("cost_usd")]
    unknown = len(usages) - len(known)
    if usages:
        parts = [f"${sum(known):f}"] if known else []
        parts += [f"{unknown} calls of unknown cost"] if unknown else []
        yield [Part(f"cost {' and '.join(parts)}", "dim")]


def _scale(axis: Axis) -> TextLine:
    right = length(axis.end - axis.begin)
    return [Part("0" + right.rjust(axis.cells - 1), "dim")]


def _child(
    child: record_pb2.RecordedChild,
    depth: int,
    outcome: outcome_pb2.CallOutcome | None,
    axis: Axis,
    drawing: Drawing,
) -> TextLine:
    state = state_of(child)
    branch = "  " * (depth - 1) + drawing.marks.branch if depth else ""
    label = f"{branch}{child.emission_index} {clean(child.sub_agent_id)}"
    if len(label) >= LABEL:
        # One character stays free between the label and the bar.
        label = label[: LABEL - 2] + "~"
    result = [state]
    if outcome is not None:
        result.append(enum_word(outcome_pb2.Outcome, outcome.outcome))
        if outcome.HasField("duration"):
            result.append(length(outcome.duration.ToTimedelta()))
        if outcome.HasField("usage"):
            result.append(cost_in_words(outcome.usage))
    return [
        Part(label.ljust(LABEL), "bold"),
        *_bar(child, axis, drawing.marks),
        # Without repetitions: state and outcome are often the same word, e.g. `failed`.
        Part("  " + ", ".join(dict.fromkeys(result)), STYLE_OF.get(state, "")),
    ]


def _bar(child: record_pb2.RecordedChild, axis: Axis, marks: GlyphSet) -> TextLine:
    """Return a bar; a child that ran at all has one cell at least."""
    # A child's work ends when its result waits for the parent, or the child fails. The parent's decision closes it.
    work_ends = [utc(event.occurred_at) for event in child.events if event.name in {WAITING_FOR_MERGE, FAILED}]
    closings = [utc(event.occurred_at) for event in child.events if event.name == CLOSED]
    # A child that began at the end of the axis still needs a cell.
    begin = min(axis.cell(utc(child.opened_at)), axis.cells - 1)
    work_end = max(axis.cell((work_ends or closings or [axis.end])[0]), begin + 1)
    end = max(axis.cell((closings or [axis.end])[0]), work_end)
    return [
        Part(marks.idle * begin, "dim"),
        Part(marks.running * (work_end - begin), STYLE_OF.get(state_of(child), "cyan")),
        Part(marks.waiting * (end - work_end), "dim"),
        Part(marks.idle * (axis.cells - end), "dim"),
    ]


def _not_run(turn: pb.GetTurnResponse) -> Iterator[TextLine]:
    """Yield a line for each call that has an outcome but no child, e.g. because it was refused."""
    for dispatch in turn.dispatches:
        for outcome in dispatch.outcomes:
            if not outcome.child_id:
                how = enum_word(outcome_pb2.Outcome, outcome.outcome)
                why = clean(outcome.status.message)
                yield [Part(f"{outcome.emission_index} {clean(outcome.tool_name)}: {how}, not run. {why}", "yellow")]


def _end(turn: pb.GetTurnResponse) -> Iterator[TextLine]:
    """Yield how the turn ended, its answer, and its routing decision."""
    if turn.close_reason:
        yield [Part(f"end: {enum_word(outcome_pb2.TurnCloseReason, turn.close_reason)}", "bold")]
    if turn.narration:
        yield [Part("    narration: " + clean(turn.narration))]
    if turn.HasField("routing_decision"):
        routing = message_to_json(turn.routing_decision)
        yield from _pretty("routing decision", json.dumps(routing), 4)


def _pretty(title: str, text: str, indent: int) -> Iterator[TextLine]:
    """Yield JSON text, indented below a title. Empty text was left out of the answer because of its length."""
    if title:
        yield [Part(" " * indent + title + ("" if text else ": left out"), "dim")]
        indent += 2
    decoded = _object(text)
    if decoded:
        for line in json.dumps(decoded, indent=2, ensure_ascii=False).splitlines():
            yield [Part(" " * indent + clean(line), "dim")]


def _object(text: str) -> dict[str, object]:
    """Return JSON text as an object; empty if it is not an object: a timeline does not validate."""
    try:
        decoded = from_json(text)
    except DecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
