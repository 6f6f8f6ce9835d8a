"""Formats decommissions (the removal of a definition in five steps) for the command line and the console."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from sidecar.cli.output.drawing import Part, TextLine, clean, columns, timestamp, utc
from sidecar.cli.output.json_output import enum_word
from subagents.lifecycle.v1 import reading_pb2 as pb

STEPS: Final[dict[int, str]] = {
    pb.CLEANUP_STEP_ENTRY: "entry",
    pb.CLEANUP_STEP_REFERENCES: "references",
    pb.CLEANUP_STEP_MODULES: "modules",
    pb.CLEANUP_STEP_BLOCKS: "blocks",
    pb.CLEANUP_STEP_EVALS_AND_TOOLS: "evals and tools",
}
"""The steps in order. The number of a step is the number of its enum value."""
HEADER: Final = ("slot", "definition", "begun", "due", "done", "next step", "evals", "tools", "pinned", "remaining")


def step_word(step: int) -> str:
    """Return number and name of a step, e.g. `3 (modules)`."""
    return f"{step} ({STEPS[step]})" if step in STEPS else str(step)


def choice_word(record: pb.Decommission, matter: str) -> str:
    """Return the decision about a `matter`, `evals` or `tools`: `retain`, `remove` or `undecided`."""
    if not record.HasField(matter):
        return "undecided"
    return enum_word(pb.CleanupChoice, getattr(record, matter).choice)


def decommission_lines(decommissions: Sequence[pb.DecommissionStatus]) -> list[TextLine]:
    """Return the table, followed by the overdue decommissions."""
    if not decommissions:
        return [[Part("no decommission is in progress")]]
    lines = columns(HEADER, [_row(each) for each in decommissions])
    late = [each for each in decommissions if each.overdue]
    return [*lines, *([[]] if late else []), *(_late(each) for each in late)]


def status_lines(status: pb.DecommissionStatus) -> Iterator[TextLine]:
    """Yield everything about one decommission."""
    name = clean(status.definition_id)
    yield [Part(f"decommission of {name} "), Part(f"in {clean(status.slot)}, revision {status.revision}", "dim")]
    yield from record_lines(status.decommission, overdue=status.overdue)
    if status.pinned_turns:
        yield [
            Part(
                f"  {status.pinned_turns} open turns are bound to it; the next step must wait until they end", "yellow"
            )
        ]
    for leftover in status.remaining:
        yield [Part(f"  remaining: {clean(leftover)}", "yellow")]
    yield [Part(f"  next: {next_for(status.decommission, name)}")]


def record_lines(record: pb.Decommission, *, overdue: bool = False) -> Iterator[TextLine]:
    """Yield the recorded decommission, with a line for each step.

    `overdue` is a parameter, because the record has no clock: the sidecar compares the due date with the time of the
    request.
    """
    began, due = day(utc(record.started_at)), day(utc(record.due_at))
    yield [Part(f"  begun {began} by {clean(record.started_by)}: {clean(record.reason)}")]
    yield [Part(f"  OVERDUE since {due}", "red") if overdue else Part(f"  due {due}")]
    # A step is recorded at most once: a repetition of step 3, after deprecated code was deleted, replaces its record.
    by_step: dict[int, pb.CleanupStepTaken] = {each.step: each for each in record.steps}
    for step in STEPS:
        yield _step(step, by_step.get(step))
    for matter in ("evals", "tools"):
        word = choice_word(record, matter)
        decided = getattr(record, matter)
        by = f" by {clean(decided.decided_by)}: {clean(decided.reason)}" if record.HasField(matter) else ""
        yield [Part(f"  {matter}: {word}{by}", "" if by else "yellow")]
    if record.HasField("finished_at"):
        yield [Part(f"  ended {timestamp(utc(record.finished_at))} UTC", "green")]


def next_for(record: pb.Decommission, name: str) -> str:
    """Return the next action for the operator. `name`: the id of the definition, safe for a screen."""
    command = "sidecar subagent decommission"
    if record.HasField("finished_at"):
        return "nothing; the decommission has ended"
    # Not ended and no next step: all five steps are taken, but the modules were only marked deprecated.
    if not record.next_step:
        return (
            f"the code is only deprecated; delete it (`{command} patch {name}`) and repeat step 3 "
            f"(`{command} step {name} 3 --reason …`)"
        )
    undecided = [matter for matter in ("evals", "tools") if not record.HasField(matter)]
    if record.next_step == pb.CLEANUP_STEP_EVALS_AND_TOOLS and undecided:
        return f"decide whether to retain {' and '.join(undecided)}: `{command} decide {name} {undecided[0]} …`"
    return (
        f"step {step_word(record.next_step)}: `{command} patch {name}` writes the change; "
        f"once the change is merged and loaded, run `{command} step {name} --reason …`"
    )


def short_words(each: Any) -> TextLine:
    """Return one line about the decommission of a definition (a `DefinitionStatus`), for the list of definitions."""
    record, name = each.decommission, clean(each.definition_id)
    what = f"step {step_word(record.next_step)} is next" if record.next_step else "its code must still be deleted"
    undecided = [matter for matter in ("evals", "tools") if not record.HasField(matter)]
    pending = f"; undecided: {', '.join(undecided)}" if undecided else ""
    due = day(utc(record.due_at))
    if each.decommission_overdue:
        return [Part(f"decommission of {name}: OVERDUE since {due}; {what}{pending}", "red")]
    return [Part(f"decommission of {name}: due {due}; {what}{pending}", "yellow")]


def day(at: datetime) -> str:
    """Return the day, UTC."""
    return f"{at:%Y-%m-%d}"


def _row(each: pb.DecommissionStatus) -> list[Part]:
    record = each.decommission
    ended = record.HasField("finished_at")
    due = day(utc(record.due_at)) + (" OVERDUE" if each.overdue else "")
    following = "ended" if ended else step_word(record.next_step) if record.next_step else "3 (modules), again"
    return [
        Part(clean(each.slot)),
        Part(clean(each.definition_id), "bold"),
        Part(day(utc(record.started_at))),
        Part(due, "red" if each.overdue else ""),
        Part(f"{len(record.steps)} of {len(STEPS)}"),
        Part(following, "green" if ended else ""),
        Part(choice_word(record, "evals")),
        Part(choice_word(record, "tools")),
        Part(str(each.pinned_turns)),
        Part(str(len(each.remaining)) if each.remaining else "-", "yellow" if each.remaining else ""),
    ]


def _late(each: pb.DecommissionStatus) -> TextLine:
    items = "; ".join(map(clean, each.remaining))
    return [Part(f"{clean(each.definition_id)} is overdue since {day(utc(each.decommission.due_at))}: {items}", "red")]


def _step(step: int, taken: pb.CleanupStepTaken | None) -> TextLine:
    if taken is None:
        return [Part(f"  - {step_word(step)}", "dim")]
    code = f", code {enum_word(pb.CodeStatus, taken.code)}" if taken.code else ""
    word = f"; {clean(taken.confirmed)}" if taken.confirmed else ""
    by = f"{timestamp(utc(taken.taken_at))} UTC by {clean(taken.taken_by)}"
    line = f"  x {step_word(step)}{code}: {by}: {clean(taken.reason)}{word}"
    return [Part(line, "yellow" if taken.code == pb.CODE_STATUS_DEPRECATED else "green")]
