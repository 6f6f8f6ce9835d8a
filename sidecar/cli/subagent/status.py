"""Implements `sidecar status` (what one sidecar serves to which users) and `sidecar drain` (stops its new turns)."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sidecar.cli.output.drawing import Part, TextLine, clean, columns, length
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.output.states import definition_effect
from sidecar.cli.subagent.output.tables import audit_line, short
from sidecar.cli.subagent.step_target import StepOptions
from sidecar.cli.subagent.steps import confirm
from sidecar.cli.subagent.views import REPLICA_VIEW, OperatorCommands, print_answer, run_watching
from subagents.admin.v1 import admin_pb2
from subagents.lifecycle.v1 import reading_pb2 as pb

WHOLE: Final = 10_000
"""A ramp of 100 %, in basis points."""
HEADER: Final = ("slot", "active", "serves", "other users", "pinned")
SERVING: Final = frozenset(
    {
        pb.ROLLOUT_EVENT_KIND_DEFINITION_SEEN,
        pb.ROLLOUT_EVENT_KIND_CONFIGURED,
        pb.ROLLOUT_EVENT_KIND_RAMP_SET,
        pb.ROLLOUT_EVENT_KIND_RAMPED_DOWN,
        pb.ROLLOUT_EVENT_KIND_ACTIVATED,
        pb.ROLLOUT_EVENT_KIND_SLOT_EMPTIED,
        pb.ROLLOUT_EVENT_KIND_FLAG_SWITCHED,
        pb.ROLLOUT_EVENT_KIND_KILLED,
    }
)
"""Kinds of audit rows that may change which users are served. Every lifecycle transition counts as well."""


@dataclass(frozen=True, slots=True)
class Status:
    """The answers of a sidecar.

    Attributes:
        process: the state of the process, which is known also while the store is unavailable.
        rollouts: None if they could not be read; while the store is unavailable, what this replica serves.
        replicas: None if they could not be read.
        steps: by slot, the audit row of the last step that changed which users are served; None if the audit could not
            be read.
        problem: why something could not be read.
    """

    process: Any
    rollouts: Any = None
    replicas: Any = None
    steps: Mapping[str, Any] | None = None
    problem: CannotOperate | None = None


def show_status(commands: OperatorCommands, *, watch: bool = False) -> int:
    """Print the status; with `watch`, again every two seconds until interrupted. Returns the exit code."""
    return run_watching(commands, lambda commands, client: _print(commands, _read_status(client)), watch=watch)


def drain(commands: OperatorCommands, options: StepOptions, *, resume: bool = False) -> int:
    """Stop new turns at one sidecar, or take them again. Returns the exit code."""
    danger = "" if resume else "The sidecar will refuse new turns until `sidecar drain --resume`."
    request = admin_pb2.DrainRequest(resume=resume, reason=options.reason)

    def ask(client: OperatorClient) -> Any:
        confirm(commands, options, danger)
        return client.ask("Drain", request)

    return print_answer(commands, ask, _drain_lines)


def status_lines(status: Status) -> Iterator[TextLine]:
    """Yield the screen: the process, its replicas, a table of slots, and what needs attention."""
    process = status.process
    head = f"sidecar {clean(process.version)}, instance {clean(process.instance_id)}, "
    yield [Part(f"{head}up {length(process.uptime.ToTimedelta())}: "), _readiness(process)]
    yield from ([Part(f"  not ready: {clean(each)}", "red")] for each in process.blockers)
    yield [Part(f"open turns: {process.open_turns}, calls in flight: {process.calls_in_flight}, including this one")]
    if process.pending_kills:
        yield [Part(f"kills that are in effect here and not recorded yet: {process.pending_kills}", "yellow")]
    yield from ([Part(f"attention: {clean(each)}", "yellow")] for each in process.attention)
    if status.replicas is not None:
        yield _replica_line(status.replicas)
    if status.rollouts is not None and status.rollouts.replica_view:
        # Instead of the problem of the reads below: the unavailable store is its cause, and this line says what still
        # holds.
        yield [Part(REPLICA_VIEW, "red")]
    elif status.problem is not None:
        what = "the served definitions" if status.rollouts is None else "replicas and last steps"
        yield [Part(f"{what} cannot be read: {status.problem}", "red")]
    if status.rollouts is not None:
        yield []
        yield from _slot_lines(status)


def _read_status(client: OperatorClient) -> Status:
    # Outside of `try`: the process answers from its memory, so without this answer there is nothing to show.
    status = Status(client.ask("GetStatus", admin_pb2.GetStatusRequest()))
    try:
        # In its own statement: if one of the next reads fails, the rollouts are shown nevertheless.
        status = replace(status, rollouts=client.rollouts())
        replicas = client.ask_all("ListReplicas", pb.ListReplicasRequest(), "replicas")
        steps = _last_steps(row for rows in client.audit(pb.WatchAuditRequest(no_follow=True)) for row in rows)
    except CannotOperate as problem:
        return replace(status, problem=problem)
    return replace(status, replicas=replicas, steps=steps)


def _print(commands: OperatorCommands, status: Status) -> OperatorExit:
    if commands.as_json:
        commands.write_json(_as_object(status))
    else:
        commands.screen.show(status_lines(status))
    return OperatorExit.DONE if status.problem is None else OperatorExit.PARTIAL


def _as_object(status: Status) -> dict[str, Any]:
    def json_or_none(message: Any) -> Any:
        return None if message is None else message_to_json(message)

    return {
        "process": json_or_none(status.process),
        "rollouts": json_or_none(status.rollouts),
        "replicas": json_or_none(status.replicas),
        "last_steps": {slot: json_or_none(row) for slot, row in (status.steps or {}).items()},
        "problem": None if status.problem is None else status.problem.as_object,
    }


def _last_steps(rows: Iterable[Any]) -> dict[str, Any]:
    """Return, by slot, the first row of the last request that changed which users are served.

    One request can write several rows, e.g. a ramp and the switch of a flag; the first one is the step itself.
    """
    steps: dict[str, Any] = {}
    for row in rows:
        last = steps.get(row.slot)
        same_request = last is not None and row.request_id and row.request_id == last.request_id
        # Rows are oldest first, so a later request replaces an earlier one; a further row of the same request does not.
        if _changes_who_is_served(row) and not same_request:
            steps[row.slot] = row
    return steps


def _changes_who_is_served(row: Any) -> bool:
    return row.HasField("transition") or (row.HasField("rollout") and row.rollout.kind in SERVING)


def _readiness(process: Any) -> Part:
    if process.draining:
        return Part("drained, refuses new turns", "yellow")
    return Part("accepts turns", "green") if process.ready else Part("refuses new turns", "red")


def _replica_line(answer: Any) -> TextLine:
    alive = [each for each in answer.replicas if each.alive]
    # A dead replica serves no user, so it cannot lag.
    behind = [each for each in alive if each.rollout_version < answer.rollout_version]
    lag = "all show the newest rollouts"
    if behind:
        lag = "behind the newest rollouts: " + ", ".join(clean(each.instance_id) for each in behind)
    return [Part(f"replicas alive: {len(alive)} of {len(answer.replicas)}; {lag}", "yellow" if behind else "")]


def _slot_lines(status: Status) -> Iterator[TextLine]:
    slots = status.rollouts.slots
    if not slots:
        yield [Part("no rollout is recorded, because the loaded configuration has no sub-agent")]
        return
    yield from columns(HEADER, [_row(each) for each in slots])
    yield []
    yield from _step_lines(slots, status.steps)
    yield from _attention(status.rollouts)


def _step_lines(slots: Iterable[pb.SlotStatus], steps: Mapping[str, Any] | None) -> Iterator[TextLine]:
    for slot in slots if steps is not None else ():
        step = (steps or {}).get(slot.slot)
        yield [Part("last step  ", "bold"), *(audit_line(step) if step else [Part(f"{clean(slot.slot)}: no step")])]


def _row(slot: pb.SlotStatus) -> list[Part]:
    """Return the row of a slot: its active definition, the users that it serves, and what other users get."""
    by_digest: dict[str, Any] = {each.digest: each for each in slot.definitions}
    active = by_digest.get(slot.active_digest)
    pinned = Part(str(sum(each.pinned_turns for each in slot.definitions)))
    if active is None:
        return [Part(clean(slot.slot)), Part("none", "red"), Part("not served", "red"), Part("not served"), pinned]
    target = by_digest.get(active.target_digest)
    if active.ramp_basis_points == WHOLE:
        outside = "-"  # there are no other users
    elif target is None:
        outside = "not served"
    elif target.ramp_basis_points < WHOLE:
        # The target was replaced before its own ramp was complete; it still serves only the users of that ramp.
        outside = f"{_name(target)} to {percent(target.ramp_basis_points)}"
    else:
        outside = _name(target)
    mode = " (mode experiment)" if slot.mode == pb.ROLLOUT_MODE_EXPERIMENT else ""
    serves = f"{definition_effect(active, slot.definitions)} of users{mode}"
    return [Part(clean(slot.slot)), Part(_name(active)), Part(serves), Part(outside), pinned]


def _name(each: pb.DefinitionStatus) -> str:
    return f"{clean(each.definition_id)}@{short(each.digest)}"


def _attention(rollouts: Any) -> Iterator[TextLine]:
    """Yield what an operator should look at: flag backends, open breaches, and drifts."""
    for backend in rollouts.backends:
        if not backend.fresh:
            effect = "unreachable; definitions with flags in this backend are not served"
            yield [Part(f"attention: flag backend {clean(backend.name)}: {effect}", "red")]
    for slot in rollouts.slots:
        for each in slot.definitions:
            if each.HasField("breach") and not each.breach.acknowledged_by:
                yield [Part(f"attention: {_name(each)} has an open breach: {clean(each.breach.reason)}", "yellow")]
            yield from ([Part(f"attention: {_name(each)}: {clean(drift)}", "yellow")] for drift in each.drifts)


def _drain_lines(answer: Any) -> list[TextLine]:
    how = "drained: new turns are refused" if answer.draining else "new turns are accepted again"
    remaining = f"open turns: {answer.open_turns}, calls in flight: {answer.calls_in_flight}, including this one"
    return [[Part(f"{how}; {remaining}")]]
