"""The page on which an operator takes a step of a rollout: its plan, a dry run, a confirmation, and its result."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from starlette.responses import Response

from sidecar.cli.console.rollouts import known_rollouts
from sidecar.cli.console.sidecars import Reply
from sidecar.cli.console.visit import Visit
from sidecar.cli.subagent.client import STEPPING, STOPPING, CannotOperate, OperatorExit
from sidecar.cli.subagent.flag import pausing, switching_on
from sidecar.cli.subagent.kill import kill_danger
from sidecar.cli.subagent.output.parsing import basis_points, curve_of, window_end
from sidecar.cli.subagent.output.results import result_lines
from sidecar.cli.subagent.output.states import is_paused
from sidecar.cli.subagent.step_target import StepTarget
from sidecar.cli.subagent.steps import TAKEN_WITHOUT_READ, UNGATED, Verb
from sidecar.cli.subagent.verbs import (
    WHOLE,
    acknowledgement,
    activation,
    configuration,
    overriding,
    promotion,
    ramping,
    ramping_down,
    retirement,
    rolling_back,
)
from sidecar.core.rollout.rollout_config import MODES
from subagents.lifecycle.v1 import lifecycle_pb2, reading_pb2

KILL: Final = "kill"
CHECK: Final = "check"
FIELDS: Final = (
    *("step", "definition_id", "digest", "percent", "to", "mode", "curve", "gate", "until", "breach", "reason"),
    *("revision", "request_id"),
)
"""The fields of a posted form."""
EARLY: Final = frozenset({reading_pb2.LIFECYCLE_STATE_DEV, reading_pb2.LIFECYCLE_STATE_TEST})
PROMOTED: Final = reading_pb2.LIFECYCLE_STATE_PROMOTE


def failed_gates(each: Any) -> list[str]:
    """Return the gates (external checks) that an operator may override, because their last answer was a fail."""
    fail = reading_pb2.GATE_VERDICT_FAIL
    return [answer.gate for answer in each.last_gate_answers if answer.verdict == fail and not answer.overridden]


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of step.

    Attributes:
        may: returns whether to offer it for a slot and one of its definitions. The sidecar has the final decision.
    """

    label: str
    may: Callable[[Any, Any], bool]


STEPS: Final[Mapping[str, Step]] = {
    "promote": Step("Promote", lambda _, each: each.state in EARLY),
    "ramp": Step("Ramp", lambda _, each: each.state == PROMOTED),
    "pause": Step("Pause", lambda _, each: each.active and len(each.flags) > 1 and not is_paused(each)),
    "resume": Step("End pause", lambda _, each: is_paused(each)),
    "acknowledge": Step("Acknowledge breach", lambda _, each: each.HasField("breach")),
    "override": Step("Override a gate", lambda _, each: bool(failed_gates(each))),
    "activate": Step("Activate", lambda slot, each: not slot.active_digest and each.state == PROMOTED),
    "configure": Step("Mode and curve", lambda _, each: each.state == PROMOTED),
    "retire-flags": Step("Retire flags", lambda _, each: bool(each.flags) and each.ramp_basis_points == WHOLE),
    "ramp-down": Step("Ramp down for a breach", lambda _, each: each.ramp_basis_points > 0),
    "roll-back": Step("Roll back", lambda _, each: each.state == PROMOTED),
    KILL: Step("Kill", lambda _, each: each.state in {PROMOTED, reading_pb2.LIFECYCLE_STATE_TEST}),
}


def possible(slot: Any, each: Any) -> list[str]:
    """Return the steps to offer for a definition."""
    return [name for name, step in STEPS.items() if step.may(slot, each)]


@dataclass(slots=True)
class StepForm:
    """The content of the form of a step.

    Attributes:
        revision: the revision of the slot that the operator saw; empty: the step does not read the slot.
        request_id: identifies the step, so that a form that is sent twice takes the step once.
        verbs: the requests that make up the step; empty if the form is incomplete.
        wrong: what is wrong with the form, or why the step was refused.
        lines: the answer of the sidecar, line by line, each with its style.
        slot, definition: as they were read for the form; None: the step reads nothing.
    """

    step: str
    definition_id: str
    digest: str
    percent: str = ""
    to: str = ""
    mode: str = ""
    curve: str = ""
    gate: str = ""
    until: str = ""
    breach: str = ""
    reason: str = ""
    revision: str = ""
    request_id: str = field(default_factory=lambda: f"console-{uuid.uuid4()}")
    verbs: Sequence[Verb] = ()
    wrong: str = ""
    lines: list[tuple[str, str]] = field(default_factory=list)
    done: bool = False
    slot: Any = None
    definition: Any = None

    @property
    def danger(self) -> str:
        """The effects that the operator must confirm; empty: none."""
        return "\n".join(verb.danger for verb in self.verbs if verb.danger)


async def form(visit: Visit) -> Response:
    """Return the form of a step."""
    form = StepForm(visit.query("step"), visit.query("definition"), visit.query("digest"), visit.query("percent"))
    return await _shown(visit, form)


async def post(visit: Visit) -> Response:
    """Check a step, or take it."""
    form = StepForm("", "", "")
    for name in FIELDS:
        setattr(form, name, visit.fields.get(name, "").strip())
    check = visit.fields.get("do") == CHECK
    try:
        form.verbs = await _verbs(visit, form)
        if not form.reason:
            raise _wrong("Give a reason; it is on record in the audit.")
        # The page asks for the confirmation; this check holds for every client.
        if form.danger and not check and not visit.fields.get("confirmed"):
            raise _wrong("Confirm what the step does.")
        if form.step == KILL:
            await _kill(visit, form, check=check)
        else:
            await _take(visit, form, check=check)
    except ValueError as problem:
        form.wrong = str(problem)
    except CannotOperate as problem:
        form.wrong = str(problem)
        if not problem.uncertain:
            # The sidecar stores a refusal under the request id, and would repeat it for ever. After an uncertain error
            # (no answer), the id stays: the step may have been taken, and a second try must find that answer.
            form.request_id = StepForm("", "", "").request_id
            form.revision = ""
    if form.done:
        return visit.render("step_done.html", form=form, name=visit.request.path_params["slot"], steps=STEPS)
    return await _shown(visit, form)


async def _shown(visit: Visit, form: StepForm) -> Response:
    name = visit.request.path_params["slot"]
    if form.step not in STEPS:
        raise _wrong(f"there is no step {form.step[:20]}")
    if not form.verbs or not form.revision:
        try:
            form.verbs = await _verbs(visit, form)
        except ValueError as problem:
            form.wrong = form.wrong or ("" if not form.percent else str(problem))
    return visit.render("step.html", 200, form=form, name=name, steps=STEPS, failed_gates=failed_gates)


async def _verbs(visit: Visit, form: StepForm) -> list[Verb]:
    """Return the requests that make up the step, and store the revision of the slot in the form."""
    if form.step == KILL:  # reads nothing: a store that does not answer must not delay a kill
        danger = kill_danger(form.definition_id, len(visit.sidecars.all))
        return [Verb("Kill", "kill; needs no gate and no store", danger=danger)]
    if form.step == "pause":
        return pausing()
    if form.step == "ramp-down":
        if not form.breach:
            raise ValueError("Give the id of the breach, as the monitoring system reports it.")
        return ramping_down(form.breach)
    rollouts = await known_rollouts(visit)
    if rollouts.problem is not None:
        raise rollouts.problem
    slot = rollouts.slot(visit.request.path_params["slot"])
    found = [each for each in (slot.definitions if slot else ()) if each.digest == form.digest]
    if not found:
        raise _wrong("the slot does not have this definition any more")
    target = StepTarget(slot, found[0])
    # The first revision stays: it is what the operator saw, and a change since then must refuse the step.
    form.revision, form.slot, form.definition = form.revision or str(slot.revision), slot, target.definition
    return _planned(target, form, visit.now)


def _planned(target: StepTarget, form: StepForm, now: datetime) -> list[Verb]:
    name = form.definition_id
    plans: Mapping[str, Callable[[], list[Verb]]] = {
        "promote": lambda: promotion(target),
        "ramp": lambda: ramping(target, name, basis_points(form.percent)),
        "resume": lambda: switching_on(target),
        "configure": lambda: _configuration(target, form),
        "override": lambda: _override(target, form, now),
        "retire-flags": lambda: retirement(target, name),
        "acknowledge": lambda: acknowledgement(target),
        "activate": activation,
        "roll-back": lambda: rolling_back(target, name, form.to),
    }
    return plans[form.step]()


def _configuration(target: StepTarget, form: StepForm) -> list[Verb]:
    if form.mode not in MODES and not form.curve:
        raise ValueError("Give a mode, a ramp curve, or both.")
    return configuration(target, form.mode, curve_of(form.curve) if form.curve else None)


def _override(target: StepTarget, form: StepForm, now: datetime) -> list[Verb]:
    if form.gate not in failed_gates(target.definition):
        raise ValueError("Choose a gate whose last answer was a fail.")
    return overriding(target, form.gate, basis_points(form.percent), window_end(form.until, now))


def _header(form: StepForm, name: str, request_id: str, revision: int | None, *, check: bool) -> Any:
    return lifecycle_pb2.StepHeader(
        definition_id=form.definition_id,
        slot=name,
        digest=form.digest,
        expected_revision=revision,
        reason=form.reason,
        request_id=request_id,
        dry_run=check,
    )


async def _take(visit: Visit, form: StepForm, *, check: bool) -> None:
    """Send the requests of the step in order. A dry run sends the first only, because the next one depends on it."""
    name = visit.request.path_params["slot"]
    revision = int(form.revision) if form.revision.isdigit() else None
    for verb in form.verbs[:1] if check else form.verbs:
        # A dry run has an id of its own, or its answer would be returned for the real step.
        request_id = f"{form.request_id}{verb.suffix}{'.check' if check else ''}"
        expected = None if verb.method in TAKEN_WITHOUT_READ else revision
        header = _header(form, name, request_id, expected, check=check)
        request = getattr(lifecycle_pb2, f"{verb.method}Request")(header=header, **verb.fields)
        seconds = STOPPING if verb.method in UNGATED else STEPPING
        result = (await visit.sidecars.ask(visit.token, verb.method, request, form.definition_id, seconds)).result
        form.lines += result_lines(result, verb.method, dry_run=check)
        # The next request is checked against the slot as this one left it.
        revision = result.revision
        # The flag is in a system that the sidecar cannot write; an operator must change it there first.
        if not check and result.edits and not result.changed and not result.reached:
            raise _wrong("Not taken: make the edit, then take the step again.")
    form.done = not check


async def _kill(visit: Visit, form: StepForm, *, check: bool) -> None:
    """Send the kill to every sidecar at the same time. It has succeeded if one sidecar accepted it."""
    request_id = f"{form.request_id}.check" if check else form.request_id
    header = _header(form, visit.request.path_params["slot"], request_id, None, check=check)
    request = lifecycle_pb2.KillRequest(header=header)
    # To all and not to the first: each takes effect at once in its own process, before the store spreads it.
    replies = await visit.sidecars.ask_each(visit.token, "Kill", request, STOPPING)
    for reply in replies:
        form.lines += _kill_lines(reply, check=check)
    problems = [reply.problem for reply in replies if reply.problem is not None]
    if len(problems) == len(replies):
        raise problems[0]
    form.done = not check


def _kill_lines(reply: Reply, *, check: bool) -> list[tuple[str, str]]:
    if reply.problem is not None:
        head = "REFUSED by" if reply.problem.reason and not reply.problem.uncertain else "NOT REACHED:"
        return [(f"{head} {reply.target}: {reply.problem.message}", "red")]
    return [(f"reached: {reply.target}", "green"), *result_lines(reply.answer.result, "Kill", dry_run=check)]


def _wrong(message: str) -> CannotOperate:
    return CannotOperate(message, OperatorExit.NOT_ASKED)
