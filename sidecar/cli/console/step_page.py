"""The page on which an operator takes a step of a rollout: its plan, a dry run, a confirmation, and its result."""

from typing import Any, Final

from starlette.responses import Response

from sidecar.cli.console.rollouts import cleanups, known_rollouts
from sidecar.cli.console.sidecars import Reply
from sidecar.cli.console.step_form import FIELDS, StepForm
from sidecar.cli.console.step_plans import CLEANUP, KILL, STEPS, failed_gates, plan, unread_plan
from sidecar.cli.console.visit import Visit
from sidecar.cli.subagent.client import STEPPING, STOPPING, CannotOperate, OperatorExit
from sidecar.cli.subagent.decommission import VOUCHED, next_step
from sidecar.cli.subagent.output.results import result_lines
from sidecar.cli.subagent.step_target import StepTarget
from sidecar.cli.subagent.steps import TAKEN_WITHOUT_READ, UNGATED, Verb
from subagents.lifecycle.v1 import lifecycle_pb2

CHECK: Final = "check"
"""The value of the button that only checks the step (a dry run)."""


async def form(visit: Visit) -> Response:
    """Return the form of the step that the URL names (GET)."""
    form = StepForm(visit.query("step"), visit.query("definition"), visit.query("digest"), visit.query("percent"))
    return await _form_page(visit, form)


async def post(visit: Visit) -> Response:
    """Check or take the step of a posted form; return its result, or the form with what is wrong."""
    form = StepForm("", "", "")
    for name in FIELDS:
        # Only `FIELDS`: a client must not set e.g. `done` or `verbs`.
        setattr(form, name, visit.fields.get(name, "").strip())
    _check_known(form)
    check = visit.fields.get("do") == CHECK
    try:
        # Planned again: a posted form contains no plan, so a client cannot send requests of its own.
        form.verbs = await _verbs(visit, form)
        if not form.reason:
            raise _wrong("Give a reason; it is on record in the audit.")
        # The page asks for the confirmation; this check holds for every client.
        if form.danger and not check and not visit.fields.get("confirmed"):
            raise _wrong("Confirm what the step does.")
        # A kill is sent to every sidecar; every other step is sent to one, and the replicas read it from the rollout
        # store.
        if form.step == KILL:
            await _kill(visit, form, check=check)
        else:
            await _take(visit, form, check=check)
    except ValueError as problem:  # a field is missing or malformed
        form.wrong = str(problem)
    except CannotOperate as problem:
        form.wrong = str(problem)
        if not problem.uncertain:
            # The sidecar stores a refusal under the request id, and would repeat it for ever. After an uncertain error
            # (no answer), the id stays: the step may have been taken, and a second try must find that answer.
            form.request_id = StepForm("", "", "").request_id  # a new one
            form.revision = ""
    if form.done:
        return visit.render("step_done.html", form=form, name=visit.request.path_params["slot"], steps=STEPS)
    return await _form_page(visit, form)


async def _form_page(visit: Visit, form: StepForm) -> Response:
    """Return the page with the form, and with the plan of the step if the form says enough."""
    name = visit.request.path_params["slot"]
    _check_known(form)
    # After a refusal `post` has cleared the revision: the plan is made anew from the rollout as it is now.
    if not form.verbs or not form.revision:
        try:
            form.verbs = await _verbs(visit, form)
        except ValueError as problem:
            # A new form is still empty, which is no mistake of the operator; only a preset percentage may be one.
            form.wrong = form.wrong or ("" if not form.percent else str(problem))
    cleanup_lines = await cleanups(visit, [form.definition] if form.step in CLEANUP else [])
    return visit.render(
        "step.html",
        200,
        form=form,
        name=name,
        steps=STEPS,
        failed_gates=failed_gates,
        cleanup=cleanup_lines.get(form.digest, []),
        number=next_step(form.definition) if form.step in CLEANUP and form.definition else 0,
        vouched=VOUCHED,
    )


def _check_known(form: StepForm) -> None:
    if form.step not in STEPS:
        raise _wrong(f"there is no step {form.step[:20]}")


async def _verbs(visit: Visit, form: StepForm) -> list[Verb]:
    """Return the requests that make up the step, with their plan in words; set revision and definition of the form.

    Raises:
        ValueError: the form does not say enough.
        CannotOperate: the rollout cannot be read, or no longer has the definition.
    """
    if without_read := unread_plan(form, len(visit.sidecars.all)):
        return without_read
    rollouts = await known_rollouts(visit)
    if rollouts.problem is not None:
        raise rollouts.problem
    slot = rollouts.slot(visit.request.path_params["slot"])
    # By digest and not by id: a newer content may have the same id.
    matching = [each for each in (slot.definitions if slot else ()) if each.digest == form.digest]
    if not matching:
        raise _wrong("the slot does not have this definition any more")
    target = StepTarget(slot, matching[0])
    # The first revision stays, because the operator saw it: the sidecar must refuse the step after a change since then.
    form.revision, form.slot, form.definition = form.revision or str(slot.revision), slot, target.definition
    return plan(target, form, visit.now)


def _header(form: StepForm, name: str, request_id: str, revision: int | None, *, check: bool) -> Any:
    """Return the part that every request of a step has. `name`: the slot; `revision`: None: not compared."""
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
        # A stop must not fail because another operator has changed the slot since the form was shown.
        expected = None if verb.method in TAKEN_WITHOUT_READ else revision
        header = _header(form, name, request_id, expected, check=check)
        request = getattr(lifecycle_pb2, f"{verb.method}Request")(header=header, **verb.fields)
        seconds = STOPPING if verb.method in UNGATED else STEPPING
        result = (await visit.sidecars.ask(visit.token, verb.method, request, form.definition_id, seconds)).result
        form.lines += result_lines(result, verb.method, dry_run=check)
        # The next request is checked against the slot as this one left it.
        revision = result.revision
        # Nothing changed, and an edit is named: the sidecar cannot write to the flag backend, so an operator must
        # switch the flag there first.
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
    # Raised, so that the form is shown again: no sidecar has applied the kill for certain.
    if len(problems) == len(replies):
        raise problems[0]
    form.done = not check


def _kill_lines(reply: Reply, *, check: bool) -> list[tuple[str, str]]:
    if reply.problem is not None:
        # Only an answer with a reason proves that the sidecar did not apply the kill.
        head = "REFUSED by" if reply.problem.reason and not reply.problem.uncertain else "NOT REACHED:"
        return [(f"{head} {reply.target}: {reply.problem.message}", "red")]
    return [(f"reached: {reply.target}", "green"), *result_lines(reply.answer.result, "Kill", dry_run=check)]


def _wrong(message: str) -> CannotOperate:
    return CannotOperate(message, OperatorExit.NOT_ASKED)
