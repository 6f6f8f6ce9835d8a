"""`sidecar subagent decommission patch|overdue`: what a checkout of the configuration repository still holds."""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError

from sidecar.cli.output.drawing import Part, clean
from sidecar.cli.output.json_output import message_from_json, message_to_json
from sidecar.cli.output.turn_timeline import utc
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.decommission_tables import choice_word, day
from sidecar.cli.subagent.views import OperatorCommands, operated
from sidecar.cli.validate.checkouts import Checkouts
from sidecar.core.decoding import from_json
from sidecar.core.rollout.checkout_inspection import CheckoutRefused, CheckoutReport, DecommissionPatchRequest
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus
from subagents.lifecycle.v1 import reading_pb2 as pb


@dataclass(frozen=True, slots=True)
class CheckoutLocation:
    """Which checkout is looked at, and how.

    Attributes:
        root: the folder that holds `agent_config.yaml`; None: none is.
        record: a file with what `status --json` printed, instead of asking a sidecar; None: one is asked.
    """

    checkouts: Checkouts
    root: Path | None
    modules: str
    record: Path | None = None


@dataclass(frozen=True, slots=True)
class PatchWish:
    """What is to be written.

    Attributes:
        through: the last step; 0: the next one, and the second with the first.
        to: a file; None: print.
    """

    name: str
    through: int = 0
    code: CodeStatus = CodeStatus.GONE
    remove_entry: bool = False
    to: Path | None = None


@dataclass(frozen=True, slots=True)
class KnownDefinitions:
    """A decommission as it stands, and which other definitions of its slot are rolled back.

    Attributes:
        over: whether it has ended, and no other definition goes by its id: whatever a checkout has of it is left over.
    """

    status: pb.DecommissionStatus
    rolled_back: tuple[str, ...]
    over: bool = False


def patch(operating: OperatorCommands, wish: PatchWish, at: CheckoutLocation) -> int:
    """Write the change of the next steps as a patch; the checkout is only read. Returns the exit code."""
    return _with_record(operating, wish.name, at, lambda where, known: _patched(where, known, wish, at))


def overdue(operating: OperatorCommands, at: CheckoutLocation) -> int:
    """Say what has outlived its window, and in a checkout, what is left of it and of those that have ended.

    Returns the exit code: 1 if there is any.
    """

    def work(where: OperatorCommands, known: tuple[KnownDefinitions, ...]) -> OperatorExit:
        late = [(each, _left_in(each, at)) for each in known if each.status.overdue]
        ended = [(each, seen) for each in known if each.over and (seen := _left_in(each, at)) and seen.left]
        code = OperatorExit.REFUSED if late or ended else OperatorExit.DONE
        if where.as_json:
            rows = {name: [_row(*each) for each in found] for name, found in (("overdue", late), ("ended", ended))}
            where.write_json(rows | {"exit_code": int(code)})
            return code
        if not late:
            where.screen.show([[Part("no decommission is overdue", "green")]])
        for each, seen in (*late, *ended):
            where.screen.show([[Part(line, style)] for line, style in _left_lines(each, seen)])
        return code

    return _with_all(operating, at, work)


def _with_all(
    operating: OperatorCommands,
    at: CheckoutLocation,
    work: Callable[[OperatorCommands, tuple[KnownDefinitions, ...]], OperatorExit],
) -> int:
    try:
        if at.record is not None:
            return work(operating, (_read(at.record),))
        return operated(operating, lambda client: work(operating, _all_of(client)))
    except CheckoutRefused as problem:
        return operating.refused(CannotOperate(str(problem), OperatorExit.NOT_ASKED))


def _with_record(
    operating: OperatorCommands,
    name: str,
    at: CheckoutLocation,
    work: Callable[[OperatorCommands, KnownDefinitions], OperatorExit],
) -> int:
    try:
        if at.record is None:
            return operated(operating, lambda client: work(operating, asked_for(client, name)))
        known = _read(at.record)
        if known.status.definition_id != name:
            raise CheckoutRefused(f"{at.record} is about {clean(known.status.definition_id)}, not {clean(name)}")
        return work(operating, known)
    except CheckoutRefused as problem:
        return operating.refused(CannotOperate(str(problem), OperatorExit.NOT_ASKED))


def _patched(where: OperatorCommands, known: KnownDefinitions, wish: PatchWish, at: CheckoutLocation) -> OperatorExit:
    made = at.checkouts.patch(at.root or Path(), _wanted(known, wish, at))
    where.errors.writelines(f"{clean(line)}\n" for line in (*made.does, *(f"note: {note}" for note in made.notes)))
    if not made.diff:
        where.errors.write("nothing is to be changed: the checkout has it already\n")
    elif wish.to is not None:
        wish.to.write_text(made.diff, encoding="utf-8", newline="", errors="surrogateescape")
        where.errors.write(
            f"written to {wish.to}; next: `{_applying(wish.to, at.root)}` on a branch, and have it reviewed\n"
        )
    else:
        where.out.write(made.diff)
    return OperatorExit.DONE


def _applying(patch: Path, root: Path | None) -> str:
    """Return the command that applies a patch at the top of the checkout, from where the command was typed."""
    if root is None:
        return shlex.join(["git", "apply", str(patch)])
    return shlex.join(["git", "-C", str(root), "apply", os.path.relpath(patch.resolve(), root.resolve())])


def _wanted(known: KnownDefinitions, wish: PatchWish, at: CheckoutLocation) -> DecommissionPatchRequest:
    """Return what a patch is to do: the steps that come, and of those on record what the checkout holds even so."""
    record = known.status.decommission
    coming = _steps_to(record, wish.through)
    taken = tuple(each for each in CleanupStep if each not in coming and _is_taken(record, each))
    code = wish.code if CleanupStep.MODULES in coming else code_of(record)
    seen = at.checkouts.look(at.root or Path(), asking(known, at, taken, code))
    again = {each.step for each in seen.left}
    steps = tuple(each for each in CleanupStep if each in again or each in coming)
    remove = wish.remove_entry or CleanupStep.BLOCKS in taken
    return replace(asking(known, at, steps, code), remove_entry=remove)


def _steps_to(record: pb.Decommission, through: int) -> tuple[CleanupStep, ...]:
    """Return the steps that come: the next one to `through`; the first is never written without the second."""
    if record.HasField("finished_at"):
        return ()
    if not record.next_step:
        return (CleanupStep.MODULES,)
    last = max(through, record.next_step, 2)
    return tuple(each for each in CleanupStep if record.next_step <= each.number <= last)


def _is_taken(record: pb.Decommission, step: CleanupStep) -> bool:
    return any(each.step == step.number for each in record.steps)


def code_of(record: pb.Decommission) -> CodeStatus:
    """Return what became of the code by the record; before step 3: what is to become of it in the end."""
    marked = any(each.code == pb.CODE_STATUS_DEPRECATED for each in record.steps)
    return CodeStatus.DEPRECATED if marked else CodeStatus.GONE


def asking(
    known: KnownDefinitions, at: CheckoutLocation, steps: tuple[CleanupStep, ...], code: CodeStatus
) -> DecommissionPatchRequest:
    """Return what a checkout is asked about."""
    status, record = known.status, known.status.decommission
    return DecommissionPatchRequest(
        definition_id=status.definition_id,
        slot=status.slot,
        steps=steps,
        blocks=tuple(status.prompt_blocks),
        tools=tuple(status.tools),
        rolled_back=frozenset(known.rolled_back),
        code=code,
        evals=_choice(record, "evals"),
        tools_fate=_choice(record, "tools"),
        began=day(utc(record.started_at)),
        due=day(utc(record.due_at)),
        modules=at.modules,
    )


def _choice(record: pb.Decommission, matter: str) -> Choice | None:
    return Choice(choice_word(record, matter)) if record.HasField(matter) else None


def _left_in(known: KnownDefinitions, at: CheckoutLocation) -> CheckoutReport | None:
    if at.root is None:
        return None
    return at.checkouts.look(at.root, asking(known, at, tuple(CleanupStep), CodeStatus.GONE))


def _left_lines(known: KnownDefinitions, seen: CheckoutReport | None) -> list[tuple[str, str]]:
    status, name = known.status, clean(known.status.definition_id)
    if known.over and seen is not None:
        ended = day(utc(status.decommission.finished_at))
        lines = [(f"{name}: its decommission ended {ended}, and the checkout ({seen.state}) still has of it", "red")]
        lines += [(f"  {clean(each.where)}: {clean(each.what)}", "yellow") for each in seen.left]
        return [*lines, (f"  next: `sidecar subagent decommission patch {name}` writes the change", "")]
    lines = [(f"{name}: overdue since {day(utc(status.decommission.due_at))}", "red")]
    lines += [(f"  {clean(said)}", "yellow") for said in status.remaining]
    if seen is not None:
        lines += [(f"  {clean(each.where)}: {clean(each.what)}", "yellow") for each in seen.left]
        if not seen.left:
            lines.append((f"  nothing of it is left in the checkout ({seen.state})", "green"))
    return lines


def _row(known: KnownDefinitions, seen: CheckoutReport | None) -> dict[str, Any]:
    left = [] if seen is None else [{"step": each.step, "where": each.where, "what": each.what} for each in seen.left]
    return message_to_json(known.status) | {"checkout": None if seen is None else seen.state, "left_in_checkout": left}


def asked_for(client: OperatorClient, name: str) -> KnownDefinitions:
    """Return one decommission, ended or not. Raises `CannotOperate`."""
    for known in _all_of(client):
        if known.status.definition_id == name:
            return known
    raise CannotOperate(
        f"no decommission of {clean(name)} has begun (UNKNOWN_DEFINITION)",
        OperatorExit.REFUSED,
        "UNKNOWN_DEFINITION",
        advice=f"`sidecar subagent decommission begin {clean(name)}` once it is in rollback",
    )


def _all_of(client: OperatorClient) -> tuple[KnownDefinitions, ...]:
    """Return all decommissions, ended or not, the newest first."""
    answer = client.ask("ListDecommissions", pb.ListDecommissionsRequest(include_finished=True))
    slots = {slot.slot: slot for slot in client.ask("ListRollouts", pb.ListRolloutsRequest()).slots}
    staying = {
        each.definition_id
        for slot in slots.values()
        for each in slot.definitions
        if not each.decommission.HasField("finished_at")
    }
    return tuple(
        KnownDefinitions(
            each, _rolled_back(slots.get(each.slot)), _has_ended(each) and each.definition_id not in staying
        )
        for each in reversed(answer.decommissions)
    )


def _has_ended(status: pb.DecommissionStatus) -> bool:
    return status.decommission.HasField("finished_at")


def _rolled_back(slot: pb.SlotStatus | None) -> tuple[str, ...]:
    """Return the ids of a slot of which every definition is in rollback."""
    definitions = slot.definitions if slot else ()
    alive = {each.definition_id for each in definitions if each.state != pb.LIFECYCLE_STATE_ROLLBACK}
    return tuple(dict.fromkeys(each.definition_id for each in definitions if each.definition_id not in alive))


def _read(file: Path) -> KnownDefinitions:
    """Return what `status --json` printed. Raises `CheckoutRefused`."""
    try:
        said = from_json(file.read_bytes())
        rolled_back = tuple(map(str, said.pop("rolled_back", ())))
        status = ParseDict(
            message_from_json(said, pb.DecommissionStatus()), pb.DecommissionStatus(), ignore_unknown_fields=True
        )
    except (OSError, ValueError, AttributeError, TypeError, ParseError):
        raise CheckoutRefused(f"{file} is not what `sidecar subagent decommission status NAME --json` prints") from None
    if not status.definition_id or not status.HasField("decommission"):
        raise CheckoutRefused(f"{file} says nothing of a decommission")
    return KnownDefinitions(status, rolled_back, _has_ended(status))
