"""How rollouts look on a screen: the list, one slot, why a user gets what, a preview, and the audit."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from sidecar.cli.drawing import Line, Part, clean, columns, length, moment
from sidecar.cli.subagent_words import percent
from sidecar.cli.turn_timeline import utc
from subagents.dispatch.v1 import surface_pb2
from subagents.lifecycle.v1 import reading_pb2 as pb

HEADER: Final = (
    "slot",
    "definition",
    "state",
    "active",
    "ramp",
    "flags",
    "gates last said",
    "breach",
    "pinned",
    "drift",
)
STATE_STYLE: Final = {"promote": "green", "rollback": "red", "test": "cyan"}
WIDEST_WORDS: Final = 44
"""Characters of what gates said, in the list; `show` has all of it."""


def state_word(state: int) -> str:
    """Return a state as operators write it."""
    return pb.LifecycleState.Name(state).removeprefix("LIFECYCLE_STATE_").lower()


def list_lines(answer: pb.ListResponse) -> list[Line]:
    """Return the table of all definitions, how fresh the flags are, and what does not fit together."""
    if not answer.slots:
        return [[Part("no rollout is on record: the configuration that is loaded has no sub-agent")]]
    fresh = {each.name: each for each in answer.backends}
    rows = [
        _row(slot, each, ids[each.definition_id] > 1, fresh)
        for slot in answer.slots
        for ids in [Counter(one.definition_id for one in slot.definitions)]
        for each in slot.definitions
    ]
    lines = columns(HEADER, rows)
    lines += [[], *(_backend(each) for each in answer.backends)]
    for slot in answer.slots:
        for each in slot.definitions:
            lines += [_drift(each.definition_id, said) for said in each.drifts]
    return lines


def slot_lines(status: pb.SlotStatus) -> Iterator[Line]:
    """Yield everything about one slot."""
    yield [Part("slot "), Part(clean(status.slot), "bold"), Part(f"  revision {status.revision}")]
    mode = pb.RolloutMode.Name(status.mode).removeprefix("ROLLOUT_MODE_").lower()
    curve = ", ".join(percent(each) for each in status.curve_basis_points) or "any step"
    yield [Part(f"  mode {mode}; ramp curve: {curve}")]
    for each in status.definitions:
        yield []
        yield from _definition(each, {one.digest: one.definition_id for one in status.definitions})


def explanation_lines(answer: pb.ExplainResponse) -> Iterator[Line]:
    """Yield why a user gets what."""
    served = next((each.definition_id for each in answer.verdicts if each.digest == answer.served_digest), "")
    what = f"is served by {clean(served)}" if answer.served_digest else "is served by nobody"
    yield [Part(f"slot {clean(answer.slot)} at {moment(utc(answer.at))} UTC: the user {what}", "bold")]
    if answer.HasField("bucket"):
        salted = f"salt {clean(answer.salt)}, {clean(answer.bucketing)}"
        yield [Part(f"  bucket {answer.bucket} of 10000 ({salted}): inside every ramp above {percent(answer.bucket)}")]
    else:
        yield [Part("  no bucket: a user without a key is outside every ramp below 100 %")]
    for each in answer.verdicts:
        verdict = surface_pb2.CandidateVerdict.Name(each.verdict).removeprefix("CANDIDATE_VERDICT_").lower()
        style = "green" if verdict == "chosen" else ""
        yield [
            Part(f"  {clean(each.definition_id)} {short(each.digest)} "),
            Part(verdict, style),
            Part(f": {clean(each.words)}"),
        ]
    for said in answer.assumptions:
        yield [Part(f"  assumed: {clean(said)}", "dim")]


def preview_lines(answer: pb.PreviewRampResponse) -> Iterator[Line]:
    """Yield what a ramp would change."""
    yield [Part(f"from {percent(answer.from_basis_points)} to {percent(answer.to_basis_points)}", "bold")]
    yield [Part(f"  of {answer.known} users seen lately at this sidecar, {answer.inside} are inside now")]
    yield [Part(f"  {answer.joining} would come in, {answer.leaving} would go out")]
    yield [Part(f"  gates that would be asked: {', '.join(map(clean, answer.gates)) or 'none'}")]


def audit_line(row: Any) -> Line:
    """Return one row of the audit."""
    head = f"{moment(utc(row.at))}  {row.number:>6}  {clean(row.slot)}  "
    if row.HasField("transition"):
        moved = row.transition
        what = f"{state_word(moved.source_state)} -> {state_word(moved.target_state)}"
        trigger = pb.Trigger.Name(moved.trigger).removeprefix("TRIGGER_").lower()
        effect = (
            f"in effect {moment(utc(moved.effective_at))}" if moved.HasField("effective_at") else "not in effect yet"
        )
        more = f"({trigger}; {effect})"
        name = moved.subagent_id
    else:
        event = row.rollout
        name, what = event.subagent_id, clean(event.what)
        ramps = (event.before_basis_points, event.after_basis_points)
        more = f"{percent(ramps[0])} -> {percent(ramps[1])}" if ramps[0] != ramps[1] else ""
        more = f"{more}  {clean(event.detail)}".strip()
    return [
        Part(head, "dim"),
        Part(f"{clean(name)} {short(row.digest)}  ", "bold"),
        Part(f"{what}  {more}".rstrip()),
        Part(f"  by {clean(row.actor)}: {clean(row.reason)}", "dim"),
    ]


def short(digest: str) -> str:
    """Return enough of a digest to tell it from others."""
    return clean(digest.rpartition(":")[2][:8])


def _row(slot: pb.SlotStatus, each: pb.DefinitionStatus, several: bool, backends: dict[str, Any]) -> list[Part]:
    state = "killed" if each.HasField("killed") else state_word(each.state)
    said = clean(each.gates_said)
    name = f"{clean(each.definition_id)}@{short(each.digest)}" if several else clean(each.definition_id)
    return [
        Part(clean(slot.slot)),
        Part(name, "bold"),
        Part(state, STATE_STYLE.get(state, "red" if state == "killed" else "")),
        Part("yes" if each.active else "-", "green" if each.active else ""),
        Part(percent(each.ramp_basis_points)),
        Part(flags_word(each, backends.get(each.flag_backend))),
        Part((said if len(said) <= WIDEST_WORDS else f"{said[: WIDEST_WORDS - 3]}...") or "-"),
        Part(_breach(each) or "-", "red"),
        Part(str(each.pinned_turns)),
        Part(str(len(each.drifts)) if each.drifts else "-", "yellow"),
    ]


def flags_word(each: pb.DefinitionStatus, backend: Any = None) -> str:
    """Return in few words how the flags of a definition stand, and how old that knowledge is."""
    fixed = {pb.FLAG_PAIR_NONE: "none", pb.FLAG_PAIR_NAMED: "not created", pb.FLAG_PAIR_RETIRED: "retired"}
    if each.flag_pair in fixed:
        return fixed[each.flag_pair]
    values = [pb.FlagValue.Name(flag.value).removeprefix("FLAG_VALUE_").lower() for flag in each.flags]
    words = values[0] if len(set(values)) == 1 else ", ".join(map("{} {}".format, ("kill", "cohort"), values))
    return f"{words} ({_age(backend)})" if backend is not None else words


def _age(backend: pb.BackendStatus) -> str:
    age = length(backend.age.ToTimedelta()) if backend.HasField("age") else "never reached"
    return age if backend.fresh else f"stale, {age}"


def _backend(backend: pb.BackendStatus) -> Line:
    if backend.fresh:
        return [Part(f"flags of {clean(backend.name)}: {_age(backend)} old", "dim")]
    said = f"flags of {clean(backend.name)}: unreachable ({_age(backend)}); what they gate is not served"
    return [Part(said, "red")]


def _breach(each: pb.DefinitionStatus) -> str:
    if not each.HasField("breach"):
        return ""
    return clean(each.breach.breach_id) + ("" if not each.breach.acknowledged_by else " (acknowledged)")


def _drift(name: str, said: str) -> Line:
    return [Part(f"drift of {clean(name)}: {clean(said)}", "yellow")]


def _definition(each: pb.DefinitionStatus, names: dict[str, str]) -> Iterator[Line]:
    state = state_word(each.state)
    active = ", active" if each.active else ""
    yield [
        Part(f"{clean(each.definition_id)} ", "bold"),
        Part(f"{short(each.digest)}  "),
        Part(state, STATE_STYLE.get(state, "")),
        Part(f"{active}, ramp {percent(each.ramp_basis_points)}, {each.pinned_turns} turns pinned"),
    ]
    yield [Part(f"  digest {clean(each.digest)}, commit {clean(each.commit) or '-'}, vertical {clean(each.vertical)}")]
    flags = ", ".join(
        f"{clean(flag.name)} {pb.FlagValue.Name(flag.value).removeprefix('FLAG_VALUE_').lower()}" for flag in each.flags
    )
    yield [Part(f"  flags {flags_word(each)}" + (f": {flags} ({clean(each.flag_backend)})" if flags else ""))]
    if each.HasField("activated_at"):
        yield [Part(f"  first active {moment(utc(each.activated_at))} UTC")]
    if each.target_recorded:
        back = names.get(each.target_digest, each.target_digest)
        yield [
            Part(f"  a roll-back brings back {clean(back)}" if each.target_digest else "  a roll-back leaves nobody")
        ]
    if each.gates_said:
        yield [Part(f"  gates said {moment(utc(each.gates_said_at))} UTC: {clean(each.gates_said)}")]
    if each.HasField("killed"):
        kill = each.killed
        yield [
            Part(f"  killed {moment(utc(kill.killed_at))} UTC by {clean(kill.killed_by)}: {clean(kill.reason)}", "red")
        ]
    if each.HasField("breach"):
        yield [Part(f"  breach {_breach(each)} {moment(utc(each.breach.at))} UTC: {clean(each.breach.reason)}", "red")]
    for one in each.overrides:
        ramps = f"{percent(one.from_basis_points)} to {percent(one.to_basis_points)}"
        until = moment(utc(one.expires_at))
        yield [
            Part(f"  override of {clean(one.gate)}, {ramps}, until {until} UTC by {clean(one.by)}: {clean(one.reason)}")
        ]
    notes = [("in the configuration", each.in_configuration), ("deprecated", each.deprecated)]
    notes.append(("being decommissioned", each.HasField("decommission_began_at")))
    yield [Part("  " + (", ".join(word for word, holds in notes if holds) or "not in the configuration any more"))]
    for said in each.drifts:
        yield [Part("  "), *_drift(each.definition_id, said)]


def took(began: float, ended: float) -> str:
    """Return how long something took."""
    return length(timedelta(seconds=max(ended - began, 0.0)))
