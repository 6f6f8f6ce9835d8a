"""Implements `sidecar subagent decommission patch|overdue`, which inspect a checkout of the configuration."""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError

from sidecar.cli.output.drawing import Part, clean, utc
from sidecar.cli.output.json_output import message_from_json, message_to_json
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.decommission_tables import choice_word, day
from sidecar.cli.subagent.views import OperatorCommands, run_command
from sidecar.cli.validate.checkouts import Checkouts
from sidecar.core.decoding import from_json
from sidecar.core.rollout.checkout_inspection import CheckoutRefused, CheckoutReport, DecommissionPatchRequest
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus
from subagents.lifecycle.v1 import reading_pb2 as pb


@dataclass(frozen=True, slots=True)
class CheckoutLocation:
    """The checkout to inspect.

    Attributes:
        root: the folder that contains `agent_config.yaml`; None: no checkout.
        modules: the folder of the Python modules, relative to the top of the checkout or to `root`.
        status_file: a file with the output of `status --json`, used instead of a sidecar; None: use the sidecar.
    """

    checkouts: Checkouts
    root: Path | None
    modules: str
    status_file: Path | None = None


@dataclass(frozen=True, slots=True)
class PatchOptions:
    """The patch to write.

    Attributes:
        through: the last step; 0: the next one. Step 1 is never written without step 2.
        code: the state of the Python modules after step 3.
        to: the output file; None: print.
    """

    name: str
    through: int = 0
    code: CodeStatus = CodeStatus.GONE
    remove_entry: bool = False
    to: Path | None = None


@dataclass(frozen=True, slots=True)
class KnownDecommission:
    """The present state of one decommission.

    Attributes:
        rolled_back: the ids in its slot whose definitions are all in `rollback`.
        over: whether the decommission has ended and no other definition uses its id, so that nothing of the id may
            remain in a checkout.
    """

    status: pb.DecommissionStatus
    rolled_back: tuple[str, ...]
    over: bool = False


def patch(commands: OperatorCommands, options: PatchOptions, at: CheckoutLocation) -> int:
    """Write the changes of the next steps as a patch; the checkout is only read. Returns the exit code."""
    return _for_decommission(commands, options.name, at, lambda commands, known: _write(commands, known, options, at))


def overdue(commands: OperatorCommands, at: CheckoutLocation) -> int:
    """Print overdue decommissions, and leftovers of these and of ended ones in a checkout. Returns 1 if any exist."""

    def work(commands: OperatorCommands, known: tuple[KnownDecommission, ...]) -> OperatorExit:
        late = [(each, _left_in(each, at)) for each in known if each.status.overdue]
        ended = [(each, report) for each in known if each.over and (report := _left_in(each, at)) and report.left]
        code = OperatorExit.REFUSED if late or ended else OperatorExit.DONE
        if commands.as_json:
            rows = {name: [_row(*each) for each in pairs] for name, pairs in (("overdue", late), ("ended", ended))}
            commands.write_json(rows | {"exit_code": int(code)})
            return code
        if not late:
            commands.screen.show([[Part("no decommission is overdue", "green")]])
        for each, report in (*late, *ended):
            commands.screen.show([[Part(line, style)] for line, style in _left_lines(each, report)])
        return code

    return _for_all_decommissions(commands, at, work)


def _for_all_decommissions(
    commands: OperatorCommands,
    at: CheckoutLocation,
    work: Callable[[OperatorCommands, tuple[KnownDecommission, ...]], OperatorExit],
) -> int:
    try:
        # A pipeline without access to a sidecar passes a file, which contains one decommission.
        if at.status_file is not None:
            return work(commands, (_read(at.status_file),))
        return run_command(commands, lambda client: work(commands, _all_of(client)))
    except CheckoutRefused as problem:
        return commands.refused(CannotOperate(str(problem), OperatorExit.NOT_ASKED))


def _for_decommission(
    commands: OperatorCommands,
    name: str,
    at: CheckoutLocation,
    work: Callable[[OperatorCommands, KnownDecommission], OperatorExit],
) -> int:
    try:
        if at.status_file is None:
            return run_command(commands, lambda client: work(commands, find_decommission(client, name)))
        known = _read(at.status_file)
        if known.status.definition_id != name:
            raise CheckoutRefused(f"{at.status_file} is for {clean(known.status.definition_id)}, not {clean(name)}")
        return work(commands, known)
    except CheckoutRefused as problem:
        return commands.refused(CannotOperate(str(problem), OperatorExit.NOT_ASKED))


def _write(
    commands: OperatorCommands, known: KnownDecommission, options: PatchOptions, at: CheckoutLocation
) -> OperatorExit:
    draft = at.checkouts.patch(at.root or Path(), _request_for(known, options, at))
    commands.errors.writelines(f"{clean(line)}\n" for line in (*draft.does, *(f"note: {note}" for note in draft.notes)))
    if not draft.diff:
        commands.errors.write("nothing to change: the checkout already contains the change\n")
    elif options.to is not None:
        # `surrogateescape` and no newline conversion: the patch must contain the exact bytes of files in any encoding.
        options.to.write_text(draft.diff, encoding="utf-8", newline="", errors="surrogateescape")
        commands.errors.write(
            f"written to {options.to}; next: run `{_git_apply(options.to, at.root)}` on a branch and have it reviewed\n"
        )
    else:
        commands.out.write(draft.diff)
    return OperatorExit.DONE


def _git_apply(patch: Path, root: Path | None) -> str:
    """Return the command that applies a patch at the top of the checkout, as typed in the current directory."""
    if root is None:
        return shlex.join(["git", "apply", str(patch)])
    return shlex.join(["git", "-C", str(root), "apply", os.path.relpath(patch.resolve(), root.resolve())])


def _request_for(known: KnownDecommission, options: PatchOptions, at: CheckoutLocation) -> DecommissionPatchRequest:
    """Return the request for a patch: the pending steps, and recorded steps whose subject is in the checkout again."""
    decommission = known.status.decommission
    pending = _pending_steps(decommission, options.through)
    recorded = {each.step for each in decommission.steps}
    # A later merge may have restored what a recorded step had removed.
    done_before = tuple(each for each in CleanupStep if each not in pending and each.number in recorded)
    code = options.code if CleanupStep.MODULES in pending else code_of(decommission)
    report = at.checkouts.look(at.root or Path(), patch_request(known, at, done_before, code))
    restored = {each.step for each in report.left}
    steps = tuple(each for each in CleanupStep if each in restored or each in pending)
    # Step 4 removes the entry, too: if an entry is there again after step 4, step 1 must not only mark it.
    remove = options.remove_entry or CleanupStep.BLOCKS in done_before
    return replace(patch_request(known, at, steps, code), remove_entry=remove)


def _pending_steps(decommission: pb.Decommission, through: int) -> tuple[CleanupStep, ...]:
    """Return the pending steps, from the next one to `through`. The first is never written without the second."""
    if decommission.HasField("finished_at"):
        return ()
    if not decommission.next_step:
        # All steps are taken, but the modules are only deprecated: step 3 must be repeated.
        return (CleanupStep.MODULES,)
    # At least 2: step 1 may remove the entry, and entries that still name it would make the configuration invalid.
    last = max(through, decommission.next_step, 2)
    return tuple(each for each in CleanupStep if decommission.next_step <= each.number <= last)


def code_of(decommission: pb.Decommission) -> CodeStatus:
    """Return the recorded state of the modules; before step 3 `GONE`, because they must be deleted in the end."""
    marked = any(each.code == pb.CODE_STATUS_DEPRECATED for each in decommission.steps)
    return CodeStatus.DEPRECATED if marked else CodeStatus.GONE


def patch_request(
    known: KnownDecommission, at: CheckoutLocation, steps: tuple[CleanupStep, ...], code: CodeStatus
) -> DecommissionPatchRequest:
    """Return the request for inspecting or patching a checkout."""
    status, decommission = known.status, known.status.decommission
    return DecommissionPatchRequest(
        definition_id=status.definition_id,
        slot=status.slot,
        steps=steps,
        blocks=tuple(status.prompt_blocks),
        tools=tuple(status.tools),
        rolled_back=frozenset(known.rolled_back),
        code=code,
        evals=_choice(decommission, "evals"),
        tools_fate=_choice(decommission, "tools"),
        began=day(utc(decommission.started_at)),
        due=day(utc(decommission.due_at)),
        modules=at.modules,
    )


def _choice(decommission: pb.Decommission, matter: str) -> Choice | None:
    return Choice(choice_word(decommission, matter)) if decommission.HasField(matter) else None


def _left_in(known: KnownDecommission, at: CheckoutLocation) -> CheckoutReport | None:
    if at.root is None:
        return None
    return at.checkouts.look(at.root, patch_request(known, at, tuple(CleanupStep), CodeStatus.GONE))


def _left_lines(known: KnownDecommission, report: CheckoutReport | None) -> list[tuple[str, str]]:
    status, name = known.status, clean(known.status.definition_id)
    if known.over and report is not None:
        ended = day(utc(status.decommission.finished_at))
        lines = [(f"{name}: its decommission ended {ended}, but the checkout ({report.state}) still contains", "red")]
        lines += [(f"  {clean(each.where)}: {clean(each.what)}", "yellow") for each in report.left]
        return [*lines, (f"  next: `sidecar subagent decommission patch {name}` writes the change", "")]
    lines = [(f"{name}: overdue since {day(utc(status.decommission.due_at))}", "red")]
    lines += [(f"  {clean(reason_text)}", "yellow") for reason_text in status.remaining]
    if report is not None:
        lines += [(f"  {clean(each.where)}: {clean(each.what)}", "yellow") for each in report.left]
        if not report.left:
            lines.append((f"  nothing of it remains in the checkout ({report.state})", "green"))
    return lines


def _row(known: KnownDecommission, report: CheckoutReport | None) -> dict[str, Any]:
    left = () if report is None else report.left
    return message_to_json(known.status) | {
        "checkout": None if report is None else report.state,
        "left_in_checkout": [{"step": each.step, "where": each.where, "what": each.what} for each in left],
    }


def find_decommission(client: OperatorClient, name: str) -> KnownDecommission:
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


def _all_of(client: OperatorClient) -> tuple[KnownDecommission, ...]:
    """Return all decommissions, ended or not, the newest first."""
    answer = client.ask_all("ListDecommissions", pb.ListDecommissionsRequest(include_finished=True), "decommissions")
    slots = {slot.slot: slot for slot in client.ask_all("ListRollouts", pb.ListRolloutsRequest(), "slots").slots}
    # An id can be used again by a new definition. What the checkout contains of the id then belongs to the new one.
    ids_in_use = {
        each.definition_id
        for slot in slots.values()
        for each in slot.definitions
        if not each.decommission.HasField("finished_at")
    }
    return tuple(
        KnownDecommission(
            each, _rolled_back(slots.get(each.slot)), _has_ended(each) and each.definition_id not in ids_in_use
        )
        for each in reversed(answer.decommissions)
    )


def _has_ended(status: pb.DecommissionStatus) -> bool:
    return status.decommission.HasField("finished_at")


def _rolled_back(slot: pb.SlotStatus | None) -> tuple[str, ...]:
    """Return the ids in a slot whose definitions are all in `rollback`."""
    definitions = slot.definitions if slot else ()
    alive = {each.definition_id for each in definitions if each.state != pb.LIFECYCLE_STATE_ROLLBACK}
    return tuple(dict.fromkeys(each.definition_id for each in definitions if each.definition_id not in alive))


def _read(file: Path) -> KnownDecommission:
    """Read the output of `status --json`. Raises `CheckoutRefused`."""
    try:
        status_json = from_json(file.read_bytes())
        rolled_back = tuple(map(str, status_json.pop("rolled_back", ())))
        status = ParseDict(
            message_from_json(status_json, pb.DecommissionStatus()), pb.DecommissionStatus(), ignore_unknown_fields=True
        )
    except (OSError, ValueError, AttributeError, TypeError, ParseError):
        raise CheckoutRefused(
            f"{file} is not the output of `sidecar subagent decommission status NAME --json`"
        ) from None
    if not status.definition_id or not status.HasField("decommission"):
        raise CheckoutRefused(f"{file} contains no decommission")
    # `over` is only assumed: the file does not tell whether another definition uses the id by now.
    return KnownDecommission(status, rolled_back, _has_ended(status))
