"""`sidecar subagent decommission begin|decide|undo|step|list|status`: what each asks a sidecar."""

from pathlib import Path
from typing import Any, Final

from sidecar.cli.output.drawing import clean
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.cleanup import CheckoutLocation, asked_for, asking, code_of
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.decommission_tables import decommission_lines, status_lines, step_word
from sidecar.cli.subagent.steps import StepTarget, StepWish, Verb, take
from sidecar.cli.subagent.views import OperatorCommands, operated, shown
from sidecar.core.rollout.checkout_inspection import CheckoutRefused
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus
from subagents.lifecycle.v1 import reading_pb2 as pb

CODE: Final = {CodeStatus.GONE: pb.CODE_STATUS_GONE, CodeStatus.DEPRECATED: pb.CODE_STATUS_DEPRECATED}
VOUCHED: Final = (pb.CLEANUP_STEP_MODULES, pb.CLEANUP_STEP_EVALS_AND_TOOLS)
"""Steps of which no sidecar sees everything."""
FOUND: Final[dict[tuple[int, CodeStatus], str]] = {
    (pb.CLEANUP_STEP_MODULES, CodeStatus.GONE): "no Python module of it is left",
    (pb.CLEANUP_STEP_MODULES, CodeStatus.DEPRECATED): "its Python modules are marked deprecated",
    **dict.fromkeys(
        [(pb.CLEANUP_STEP_EVALS_AND_TOOLS, code) for code in CodeStatus],
        "nothing is left of it that was to be removed of evals and tools",
    ),
}
"""What a look at a checkout lets an operator confirm."""
LONGEST_WORD: Final = 1000


def begin(operating: OperatorCommands, wish: StepWish) -> int:
    """Begin; return the exit code."""
    danger = f"{clean(wish.name)} will be taken away for good; the window of its cleanup runs from now."
    plan = "begin the decommission; the state stays rollback"
    return take(operating, wish, lambda found: [Verb("BeginDecommission", plan, danger=danger)])


def decide(operating: OperatorCommands, wish: StepWish, matter: str, choice: Choice) -> int:
    """Decide; return the exit code."""
    fields = {
        "subject": pb.CleanupSubject.Value(f"CLEANUP_SUBJECT_{matter.upper()}"),
        "choice": pb.CleanupChoice.Value(f"CLEANUP_CHOICE_{choice.name}"),
    }
    return take(operating, wish, lambda found: [Verb("DecideDecommission", f"{choice} its {matter}", fields)])


def undo(operating: OperatorCommands, wish: StepWish) -> int:
    """Take it back; return the exit code."""
    danger = f"The decommission of {clean(wish.name)} is taken back; it stays in rollback, and its window ends."
    plan = "undo the decommission; bring entry and files back with `git revert`, for replay"
    return take(operating, wish, lambda found: [Verb("UndoDecommission", plan, danger=danger)])


def step(
    operating: OperatorCommands, wish: StepWish, at: CheckoutLocation, number: int, code: CodeStatus, word: str
) -> int:
    """Put a step on record, after a look at the checkout if there is one; return the exit code.

    Args:
        operating: where, and how answers look.
        wish: which sub-agent, and why.
        at: the checkout.
        number: of the step; 0: the next.
        code: what became of it.
        word: what the operator confirms.
    """

    def verbs(found: StepTarget) -> list[Verb]:
        asked = number or _next_of(found)
        confirmed = _confirmed(operating, wish.name, at, asked, code, word)
        fields: dict[str, Any] = {"step": asked, "confirmed": confirmed[:LONGEST_WORD] if asked in VOUCHED else ""}
        if asked == pb.CLEANUP_STEP_MODULES:
            fields["code"] = CODE[code]
        final = asked == pb.CLEANUP_STEP_MODULES and code is CodeStatus.GONE
        danger = f"From here on the decommission of {clean(wish.name)} cannot be undone." if final else ""
        said = f"; confirmed: {clean(confirmed)}" if fields["confirmed"] else ""
        plan = f"record step {step_word(asked)} as done{said}"
        return [Verb("TakeDecommissionStep", plan, fields, danger)]

    return take(operating, wish, verbs)


def show_all(operating: OperatorCommands, *, finished: bool) -> int:
    """List decommissions; return the exit code."""
    request = pb.ListDecommissionsRequest(include_finished=finished)
    return shown(
        operating,
        lambda client: client.ask("ListDecommissions", request),
        lambda answer: decommission_lines(answer.decommissions),
    )


def show_one(operating: OperatorCommands, name: str) -> int:
    """Show one decommission; as JSON it is what `--record` reads. Returns the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        known = asked_for(client, name)
        if operating.as_json:
            operating.write_json(message_to_json(known.status) | {"rolled_back": list(known.rolled_back)})
        else:
            operating.screen.show(status_lines(known.status))
        return OperatorExit.DONE

    return operated(operating, work)


def _confirmed(
    operating: OperatorCommands, name: str, at: CheckoutLocation, number: int, code: CodeStatus, word: str
) -> str:
    """Return what is confirmed of a step: what a look at the checkout finds, if there is one, and the operator's word.

    Raises `CannotOperate` if the checkout still holds something, or nobody confirms what no sidecar sees.
    """
    if at.root is not None:
        return "; ".join(filter(None, (_looked(operating, name, at, number, code), word)))
    if number in VOUCHED and not word:
        raise CannotOperate(
            f"no sidecar can see what step {step_word(number)} is about",
            OperatorExit.NOT_ASKED,
            advice="give --checkout DIR, and it is looked for there; or --confirm WORDS, and say what you checked",
        )
    return word


def _looked(operating: OperatorCommands, name: str, at: CheckoutLocation, number: int, code: CodeStatus) -> str:
    """Look at the checkout for all that a step and those before it see to, also those that are on record already.

    Returns what may be confirmed of the step. Raises `CannotOperate` if something is still there.
    """
    with OperatorClient(operating.where.targets[0], operating.where.token) as client:
        known = asked_for(client, name)
    record = known.status.decommission
    taken = {each.step for each in record.steps}
    asked = tuple(each for each in CleanupStep if each.number <= number or each.number in taken)
    fate = code if number == pb.CLEANUP_STEP_MODULES else code_of(record)
    try:
        seen = at.checkouts.look(at.root or Path(), asking(known, at, asked, fate))
    except CheckoutRefused as problem:
        raise CannotOperate(str(problem), OperatorExit.NOT_ASKED) from None
    if seen.left:
        said = "\n".join(f"  {clean(each.where)}: {clean(each.what)}" for each in seen.left)
        through = f" --through {number}" if number > record.next_step > 0 else ""
        raise CannotOperate(
            f"step {step_word(number)} is not done in {clean(str(at.root))} ({seen.state}); still there:\n{said}",
            OperatorExit.REFUSED,
            advice=f"`sidecar subagent decommission patch {clean(name)}{through}` writes the change",
        )
    return f"{FOUND[number, fate]} (configuration repository, {seen.state})" if number in VOUCHED else ""


def _next_of(found: StepTarget) -> int:
    definition = found.definition
    if not definition.HasField("decommission"):
        return int(pb.CLEANUP_STEP_ENTRY)
    return int(definition.decommission.next_step or pb.CLEANUP_STEP_MODULES)
