"""Formats rollouts for the command line and the console: the list, one slot, an explanation, a preview, the audit."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from sidecar.cli.output.drawing import Part, TextLine, clean, columns, length, timestamp, utc
from sidecar.cli.output.json_output import enum_word
from sidecar.cli.subagent.output.gate_words import gates_words
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.output.states import definition_effect, effect, effect_style, state_in_contract
from subagents.dispatch.v1 import surface_pb2
from subagents.lifecycle.v1 import reading_pb2 as pb

GATES: Final = "last gate verdicts"
"""The header of a column that a narrow screen does not show."""
NOTHING: Final = frozenset({"-", "0"})
"""The texts of a cell that has nothing to show."""
NAMED: Final = "not switched on for this definition yet"
"""The text for flags that the definition names but no step has switched on. The backend may have flags of these names
already, e.g. from an earlier content of the same id."""
HEADER: Final = (
    "slot",
    "definition",
    "state",
    "flags",
    GATES,
    "breach",
    "pinned",
    "drift",
)
WIDEST_WORDS: Final = 44
"""The most characters of the gates' last verdicts in the list; `show` prints them in full."""


def list_lines(answer: pb.ListRolloutsResponse, room: int | None = None) -> list[TextLine]:
    """Return the table of all definitions, the age of the flags, drifts, and the decommissions in progress.

    A drift is a contradiction between configuration, flags and record.

    Args:
        answer: all rollouts.
        room: characters of a line; None: no limit. If the table is wider, columns that are empty for all definitions
            are omitted, then the gates' last verdicts, which `show` prints.
    """
    if not answer.slots:
        return [[Part("no rollout is recorded, because the loaded configuration has no sub-agent")]]
    # For the age of the flags' values, which belongs to the backend.
    backends = {each.name: each for each in answer.backends}
    # Several definitions of a slot may have the same id (after a major change); only those are shown with a digest.
    rows = [
        _row(slot, each, ids[each.definition_id] > 1, backends)
        for slot in answer.slots
        for ids in [Counter(one.definition_id for one in slot.definitions)]
        for each in slot.definitions
    ]
    lines = _narrow(rows, room)
    lines += [[], *(_backend(each) for each in answer.backends)]
    for slot in answer.slots:
        for each in slot.definitions:
            lines += [_drift(each.definition_id, drift) for drift in each.drifts]
            if each.HasField("decommission") and not each.decommission.HasField("finished_at"):
                from sidecar.cli.subagent.output.decommission_tables import short_words  # noqa: PLC0415  decommissions are rare

                lines.append(short_words(each))
    return lines


def _narrow(rows: list[list[Part]], room: int | None) -> list[TextLine]:
    """Return the table with fewer columns if it is wider than `room`, as `list_lines` describes."""
    shown = list(range(len(HEADER)))
    lines = columns(HEADER, rows)
    if room is not None and _width(lines) > room:
        shown = [index for index in shown if any(row[index].text not in NOTHING for row in rows)]
        lines = _columns_of(rows, shown)
    # Measured again after each reduction, so that a table loses no more than it must.
    if room is not None and _width(lines) > room:
        lines = _columns_of(rows, [index for index in shown if HEADER[index] != GATES])
    return lines


def _columns_of(rows: list[list[Part]], shown: list[int]) -> list[TextLine]:
    return columns([HEADER[index] for index in shown], [[row[index] for index in shown] for row in rows])


def _width(lines: list[TextLine]) -> int:
    return max(len("".join(part.text for part in line).rstrip()) for line in lines)


def slot_lines(status: pb.SlotStatus) -> Iterator[TextLine]:
    """Yield everything about one slot."""
    yield [Part("slot "), Part(clean(status.slot), "bold"), Part(f"  revision {status.revision}")]
    yield [Part(f"  mode {mode_word(status.mode)}; ramp curve: {curve_word(status.curve_basis_points)}")]
    for each in status.definitions:
        yield []
        yield from _definition(each, status.definitions)


def mode_word(mode: int) -> str:
    """Return a mode for people."""
    return enum_word(pb.RolloutMode, mode)


def curve_word(steps: Iterable[int]) -> str:
    """Return a ramp curve for people."""
    return ", ".join(percent(each) for each in steps) or "any step"


def explanation_lines(answer: pb.ExplainServingResponse) -> Iterator[TextLine]:
    """Yield why the user gets, or does not get, a sub-agent in this slot."""
    served = next((each.definition_id for each in answer.verdicts if each.digest == answer.served_digest), "")
    what = f"is served by {clean(served)}" if answer.served_digest else "is not served"
    yield [Part(f"slot {clean(answer.slot)} at {timestamp(utc(answer.at))} UTC: the user {what}", "bold")]
    # A user is inside a ramp if the user's bucket, 0 to 9,999, is below the ramp in basis points.
    if answer.HasField("bucket"):
        salted = f"salt {clean(answer.salt)}, {clean(answer.bucketing)}"
        yield [Part(f"  bucket {answer.bucket} of 10000 ({salted}): inside every ramp above {percent(answer.bucket)}")]
    else:
        yield [Part("  no bucket: a user without a key is outside every ramp, also at 100 %")]
    for each in answer.verdicts:
        verdict = enum_word(surface_pb2.CandidateVerdict, each.verdict)
        style = "green" if verdict == "chosen" else ""
        yield [
            Part(f"  {clean(each.definition_id)} {short(each.digest)} "),
            Part(verdict, style),
            Part(f": {clean(each.explanation)}"),
        ]
    for assumption in answer.assumptions:
        yield [Part(f"  assumed: {clean(assumption)}", "dim")]


def preview_lines(answer: pb.PreviewRampResponse) -> Iterator[TextLine]:
    """Yield how many users a ramp would add and remove, and the gates that it needs."""
    step = f"from {percent(answer.from_basis_points)} to {percent(answer.to_basis_points)}"
    yield [Part(f"{clean(answer.definition_id)} {short(answer.digest)} {step}", "bold")]
    yield [Part(f"  of {answer.known} recent users of this sidecar, {answer.inside} are inside the ramp now")]
    yield [Part(f"  {answer.joining} would be added, {answer.leaving} would be removed")]
    yield [Part(f"  gates needed: {', '.join(map(clean, answer.gates)) or 'none'}")]


def audit_line(row: Any) -> TextLine:
    """Return one row of the audit: when, where, what changed, and who requested it for which reason.

    A row has one of three contents: a lifecycle transition, an event of a decommission, or another rollout event.
    """
    head = f"{timestamp(utc(row.requested_at))}  {row.sequence:>6}  {clean(row.slot)}  "
    if row.HasField("transition"):
        moved = row.transition
        killed = moved.trigger == pb.TRIGGER_KILL_SWITCH
        moved_to = effect(moved.target_state, killed=killed)
        what = f"{effect(moved.source_state)} -> {moved_to}"
        trigger = enum_word(pb.Trigger, moved.trigger)
        first_turn = "no turn yet"
        if moved.HasField("effective_at"):
            # At least 0: the two times may come from clocks of different hosts.
            first_turn = f"first turn after {length(max(utc(moved.effective_at) - utc(row.requested_at), timedelta()))}"
        more = f"({trigger}; {first_turn})"
        name = moved.definition_id
    elif row.HasField("decommission"):
        step = enum_word(pb.DecommissionEventKind, row.decommission.kind)
        name, what = row.decommission.definition_id, f"decommission {step}"
        more = clean(row.decommission.detail)
    else:
        event = row.rollout
        name, what = event.definition_id, enum_word(pb.RolloutEventKind, event.kind)
        ramps = (event.before_basis_points, event.after_basis_points)
        more = f"{percent(ramps[0])} -> {percent(ramps[1])}" if ramps[0] != ramps[1] else ""
        more = f"{more}  {clean(event.detail)}".strip()
    return [
        Part(head, "dim"),
        Part(f"{clean(name)} {short(row.digest)}  ", "bold"),
        Part(f"{what}  {more}".rstrip()),
        Part(f"  by {_who(row)}: {clean(row.reason)}", "dim"),
    ]


def _who(row: Any) -> str:
    # Not every row names an operator; then only the key that vouched for the request is known.
    role = f" ({enum_word(pb.ActorRole, row.actor_role)})" if row.actor_role else ""
    return (clean(row.actor) or f"the key {clean(row.actor_key)}") + role


def short(digest: str) -> str:
    """Return the first eight characters of a digest, enough to distinguish it in one slot."""
    return clean(digest.rpartition(":")[2][:8])


def _row(slot: pb.SlotStatus, each: pb.DefinitionStatus, shares_id: bool, backends: dict[str, Any]) -> list[Part]:
    state, gates = definition_effect(each, slot.definitions), gates_words(each)
    name = f"{clean(each.definition_id)}@{short(each.digest)}" if shares_id else clean(each.definition_id)
    return [
        Part(clean(slot.slot)),
        Part(name, "bold"),
        Part(state, effect_style(state)),
        Part(flags_word(each, backends.get(each.flag_backend))),
        Part((gates if len(gates) <= WIDEST_WORDS else f"{gates[: WIDEST_WORDS - 3]}...") or "-"),
        Part(_breach(each) or "-", "red"),
        Part(str(each.pinned_turns)),
        Part(str(len(each.drifts)) if each.drifts else "-", "yellow"),
    ]


def flags_word(each: pb.DefinitionStatus, backend: Any = None) -> str:
    """Return the values of a definition's flags in a few words, with their age if the backend is given."""
    fixed = {pb.FLAG_PAIR_NONE: "none", pb.FLAG_PAIR_NAMED: "not created", pb.FLAG_PAIR_RETIRED: "retired"}
    # In these cases the values say nothing about who is served, even if the backend has flags of these names.
    if each.flag_pair in fixed:
        return fixed[each.flag_pair]
    values = [enum_word(pb.FlagValue, flag.value) for flag in each.flags]
    words = values[0] if len(set(values)) == 1 else ", ".join(map("{} {}".format, ("kill", "cohort"), values))
    return f"{words} ({_age(backend)})" if backend is not None else words


def _age(backend: pb.BackendStatus) -> str:
    age = length(backend.age.ToTimedelta()) if backend.HasField("age") else "never reached"
    return age if backend.fresh else f"stale, {age}"


def _backend(backend: pb.BackendStatus) -> TextLine:
    if backend.fresh:
        return [Part(f"flag backend {clean(backend.name)}: values are {_age(backend)} old", "dim")]
    effect = "definitions with flags in this backend are not served"
    return [Part(f"flag backend {clean(backend.name)}: unreachable ({_age(backend)}); {effect}", "red")]


def _breach(each: pb.DefinitionStatus) -> str:
    if not each.HasField("breach"):
        return ""
    return clean(each.breach.breach_id) + ("" if not each.breach.acknowledged_by else " (acknowledged)")


def _drift(name: str, drift: str) -> TextLine:
    return [Part(f"drift of {clean(name)}: {clean(drift)}", "yellow")]


def _definition(each: pb.DefinitionStatus, slot: Sequence[pb.DefinitionStatus]) -> Iterator[TextLine]:
    state = definition_effect(each, slot)
    yield [
        Part(f"{clean(each.definition_id)} ", "bold"),
        Part(f"{short(each.digest)}  "),
        Part(state, effect_style(state)),
        Part(f", {each.pinned_turns} turns pinned"),
    ]
    yield [Part(f"  lifecycle state {state_in_contract(each)}", "dim")]
    yield [Part(f"  digest {clean(each.digest)}, commit {clean(each.commit) or '-'}, vertical {clean(each.vertical)}")]
    flags = ", ".join(f"{clean(flag.name)} {enum_word(pb.FlagValue, flag.value)}" for flag in each.flags)
    word = NAMED if each.flag_pair == pb.FLAG_PAIR_NAMED else flags_word(each)
    yield [Part(f"  flags {word}" + (f": {flags} ({clean(each.flag_backend)})" if flags else ""))]
    if each.HasField("activated_at"):
        yield [Part(f"  first active {timestamp(utc(each.activated_at))} UTC")]
    if each.target_recorded:
        names = {one.digest: one.definition_id for one in slot}
        # The target may have left the slot; its digest is then all that is known of it.
        target = names.get(each.target_digest, each.target_digest)
        yield [Part(f"  after a rollback {clean(target)} serves" if target else "  a rollback leaves the slot empty")]
    if each.last_gate_answers:
        yield [Part(f"  gates at {timestamp(utc(each.gates_answered_at))} UTC: {gates_words(each)}")]
    if each.HasField("killed"):
        kill = each.killed
        yield [
            Part(
                f"  killed {timestamp(utc(kill.killed_at))} UTC by {clean(kill.killed_by)}: {clean(kill.reason)}", "red"
            )
        ]
    if each.HasField("breach"):
        yield [
            Part(
                f"  breach {_breach(each)} {timestamp(utc(each.breach.breached_at))} UTC: {clean(each.breach.reason)}",
                "red",
            )
        ]
    for one in each.overrides:
        ramps = f"{percent(one.from_basis_points)} to {percent(one.to_basis_points)}"
        until, by = timestamp(utc(one.expires_at)), clean(one.overridden_by)
        yield [Part(f"  override of {clean(one.gate)}, {ramps}, until {until} UTC by {by}: {clean(one.reason)}")]
    notes = [("in the configuration", each.in_configuration), ("deprecated", each.deprecated)]
    yield [Part("  " + (", ".join(word for word, holds in notes if holds) or "no longer in the configuration"))]
    if each.HasField("decommission"):
        from sidecar.cli.subagent.output.decommission_tables import record_lines  # noqa: PLC0415  decommissions are rare

        yield [Part("  decommission", "bold")]
        for line in record_lines(each.decommission, overdue=each.decommission_overdue):
            yield [Part("  "), *line]
    for drift in each.drifts:
        yield [Part("  "), *_drift(each.definition_id, drift)]
