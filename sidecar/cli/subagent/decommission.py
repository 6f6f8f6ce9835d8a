"""Implements `sidecar subagent decommission begin|decide|undo|step|list|status`.

`cleanup.py` implements `patch` and `overdue`, which read a checkout of the repository with the definitions.
"""

from pathlib import Path
from typing import Any, Final

from sidecar.cli.output.drawing import clean
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.cleanup import CheckoutLocation, code_of, find_decommission, patch_request
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.decommission_tables import decommission_lines, status_lines, step_word
from sidecar.cli.subagent.step_target import StepOptions, StepTarget
from sidecar.cli.subagent.steps import Verb, take
from sidecar.cli.subagent.views import OperatorCommands, print_answer, run_command
from sidecar.core.rollout.checkout_inspection import CheckoutRefused
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus
from subagents.lifecycle.v1 import reading_pb2 as pb

CODE: Final = {CodeStatus.GONE: pb.CODE_STATUS_GONE, CodeStatus.DEPRECATED: pb.CODE_STATUS_DEPRECATED}
VOUCHED: Final = (pb.CLEANUP_STEP_MODULES, pb.CLEANUP_STEP_EVALS_AND_TOOLS)
"""Steps that a sidecar cannot verify alone: code and evaluations exist only in the repository with the definitions."""
CONFIRMATIONS: Final[dict[tuple[int, CodeStatus], str]] = {
    (pb.CLEANUP_STEP_MODULES, CodeStatus.GONE): "no Python module of it is left",
    (pb.CLEANUP_STEP_MODULES, CodeStatus.DEPRECATED): "its Python modules are marked deprecated",
    **dict.fromkeys(
        [(pb.CLEANUP_STEP_EVALS_AND_TOOLS, code) for code in CodeStatus],
        "its eval suite and tools are removed as decided",
    ),
}
"""What the inspection of a checkout confirms, by step and fate of the code."""
LONGEST_WORD: Final = 1000
"""The most characters of a confirmation that the sidecar accepts."""


def begin(commands: OperatorCommands, options: StepOptions) -> int:
    """Begin the decommission. Returns the exit code."""
    return take(commands, options, lambda _: beginning(options.name))


def beginning(name: str) -> list[Verb]:
    """Return the step that begins a decommission."""
    danger = f"{clean(name)} will be removed permanently; the window of its cleanup starts now."
    return [Verb("BeginDecommission", "begin the decommission; the definition stays rolled back", danger=danger)]


def decide(commands: OperatorCommands, options: StepOptions, matter: str, choice: Choice) -> int:
    """Record whether evals or tools are retained or removed. Returns the exit code."""
    return take(commands, options, lambda _: deciding(matter, choice))


def deciding(matter: str, choice: Choice) -> list[Verb]:
    """Return the step that records a decision."""
    fields = {
        "subject": pb.CleanupSubject.Value(f"CLEANUP_SUBJECT_{matter.upper()}"),
        "choice": pb.CleanupChoice.Value(f"CLEANUP_CHOICE_{choice.name}"),
    }
    return [Verb("DecideDecommission", f"{choice} its {matter}", fields)]


def undo(commands: OperatorCommands, options: StepOptions) -> int:
    """Undo the decommission. Returns the exit code."""
    return take(commands, options, lambda _: undoing(options.name))


def undoing(name: str) -> list[Verb]:
    """Return the step that undoes a decommission."""
    danger = f"The decommission of {clean(name)} will be undone; the definition stays rolled back."
    plan = "undo the decommission; restore entry and files with `git revert`, so that turns can be replayed"
    return [Verb("UndoDecommission", plan, danger=danger)]


def step(
    commands: OperatorCommands, options: StepOptions, at: CheckoutLocation, number: int, code: CodeStatus, word: str
) -> int:
    """Record a step, after inspecting the checkout if there is one. Returns the exit code.

    Args:
        commands: address and output.
        options: the sub-agent, and the reason.
        at: the checkout to inspect, if any.
        number: of the step; 0: the next step.
        code: whether the code was deleted or deprecated; only step 3 records it.
        word: what the operator has checked, in words; required for some steps if there is no checkout.
    """

    def verbs(target: StepTarget) -> list[Verb]:
        # The checkout is inspected before the request is sent, so a step that is not done is never recorded.
        step_number = number or next_step(target.definition)
        confirmed = _confirmation(commands, options.name, at, step_number, code, word)
        return completing(options.name, step_number, code, confirmed)

    return take(commands, options, verbs)


def completing(name: str, number: int, code: CodeStatus, confirmed: str) -> list[Verb]:
    """Return the step that records a step of the cleanup. `confirmed`: what was checked, for steps 3 and 5."""
    # A step that is not in `VOUCHED` needs no confirmation: the sidecar verifies it itself.
    # The confirmation is shortened here, because the sidecar would refuse a longer text after the inspection is done.
    fields: dict[str, Any] = {"step": number, "confirmed": confirmed[:LONGEST_WORD] if number in VOUCHED else ""}
    if number == pb.CLEANUP_STEP_MODULES:
        fields["code"] = CODE[code]
    # Deleted code cannot be restored by the sidecar, so from then on an undo would promise what it cannot keep.
    final = number == pb.CLEANUP_STEP_MODULES and code is CodeStatus.GONE
    danger = f"After this step the decommission of {clean(name)} cannot be undone." if final else ""
    message = f"; confirmed: {clean(confirmed)}" if fields["confirmed"] else ""
    return [Verb("TakeDecommissionStep", f"record step {step_word(number)} as done{message}", fields, danger)]


def next_step(definition: pb.DefinitionStatus) -> int:
    """Return the number of the step that is next; 3 again if the code is only deprecated."""
    if not definition.HasField("decommission"):
        return int(pb.CLEANUP_STEP_ENTRY)
    return int(definition.decommission.next_step or pb.CLEANUP_STEP_MODULES)


def show_all(commands: OperatorCommands, *, finished: bool) -> int:
    """List decommissions. Returns the exit code."""
    request = pb.ListDecommissionsRequest(include_finished=finished)
    return print_answer(
        commands,
        lambda client: client.ask_all("ListDecommissions", request, "decommissions"),
        lambda answer: decommission_lines(answer.decommissions),
    )


def show_one(commands: OperatorCommands, name: str) -> int:
    """Show one decommission; `--record` reads the JSON form. Returns the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        known = find_decommission(client, name)
        if commands.as_json:
            # `rolled_back` is no field of the message, but a patch that is written with `--record` needs it.
            commands.write_json(message_to_json(known.status) | {"rolled_back": list(known.rolled_back)})
        else:
            commands.screen.show(status_lines(known.status))
        return OperatorExit.DONE

    return run_command(commands, work)


def _confirmation(
    commands: OperatorCommands, name: str, at: CheckoutLocation, number: int, code: CodeStatus, word: str
) -> str:
    """Return the confirmation of a step: the result of inspecting the checkout, if given, and the operator's words.

    Raises `CannotOperate` if the checkout still has parts of the sub-agent, or a step that a sidecar cannot verify has
    no confirmation.
    """
    if at.root is not None:
        return "; ".join(filter(None, (_inspect(commands, name, at, number, code), word)))
    if number in VOUCHED and not word:
        raise CannotOperate(
            f"a sidecar cannot verify step {step_word(number)}",
            OperatorExit.NOT_ASKED,
            advice="give --checkout DIR to have it inspected, or state what you checked with --confirm WORDS",
        )
    return word


def _inspect(commands: OperatorCommands, name: str, at: CheckoutLocation, number: int, code: CodeStatus) -> str:
    """Inspect the checkout for everything that a step and the steps before it remove, including recorded steps.

    Recorded steps are inspected again because a later merge may have restored what they removed.

    Returns the confirmation of the step. Raises `CannotOperate` if something remains.
    """
    # A second connection: the inspection runs while `take` builds its steps, which get no client.
    with OperatorClient(commands.where, commands.where.targets[0]) as client:
        known = find_decommission(client, name)
    record = known.status.decommission
    recorded = {each.step for each in record.steps}
    steps = tuple(each for each in CleanupStep if each.number <= number or each.number in recorded)
    # Only step 3 decides about the code; for every other step, the recorded decision holds.
    fate = code if number == pb.CLEANUP_STEP_MODULES else code_of(record)
    try:
        report = at.checkouts.look(at.root or Path(), patch_request(known, at, steps, fate))
    except CheckoutRefused as problem:
        raise CannotOperate(str(problem), OperatorExit.NOT_ASKED) from None
    if report.left:
        message = "\n".join(f"  {clean(each.where)}: {clean(each.what)}" for each in report.left)
        # Without the option, `patch` writes only the next step.
        through = f" --through {number}" if number > record.next_step > 0 else ""
        raise CannotOperate(
            f"step {step_word(number)} is not done in {clean(str(at.root))} ({report.state}); remaining:\n{message}",
            OperatorExit.REFUSED,
            advice=f"`sidecar subagent decommission patch {clean(name)}{through}` writes the change",
        )
    return f"{CONFIRMATIONS[number, fate]} (configuration repository, {report.state})" if number in VOUCHED else ""
