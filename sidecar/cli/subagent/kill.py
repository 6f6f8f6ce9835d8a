"""Implements `sidecar subagent kill`: sends a kill to several sidecars at the same time, and reports each outcome."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from sidecar.cli.output.drawing import Part, clean
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.client import STOPPING, CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.results import is_lasting, result_lines
from sidecar.cli.subagent.step_target import StepOptions, refuse_short
from sidecar.cli.subagent.steps import confirm
from sidecar.cli.subagent.views import OperatorCommands, with_errors
from sidecar.cli.subagent.waiting import UNRECORDED, Waited, effect_lines, wait_for_replicas
from subagents.lifecycle.v1 import lifecycle_pb2


@dataclass(frozen=True, slots=True)
class KillResult:
    """The outcome at one sidecar: its answer, or the reason why there is none."""

    client: OperatorClient
    result: Any = None
    problem: CannotOperate | None = None

    @property
    def outcome(self) -> str:
        """`reached`, `refused` (the sidecar answered and applied nothing), or `not_reached` (unknown)."""
        if self.problem is None:
            return "reached"
        return "refused" if self.problem.reason and not self.problem.uncertain else "not_reached"


def kill(commands: OperatorCommands, options: StepOptions) -> int:
    """Kill a definition at every target under one request id. Returns the exit code.

    Under one id the record has the kill once, whichever of the sidecars writes it first.
    """
    # Chosen before anything is sent: every target gets the same id, and a repetition of the command can give it again.
    request_id = options.request_id or commands.new_id()
    targets = commands.where.targets

    def work() -> OperatorExit:
        # Before the confirmation: a kill reads nothing, so the beginning of a digest cannot be completed.
        refuse_short(options.digest)
        confirm(commands, options, kill_danger(options.name, len(targets)))
        with ExitStack() as opened:
            # No connection is made yet, but every address is checked, so a wrong one is reported before any kill is
            # sent.
            clients = [opened.enter_context(OperatorClient(commands.where, each)) for each in targets]
            replies = _ask_all(clients, options, request_id)
            waited = _wait_for_effect(commands, options, replies)
        code = _code(replies, waited, dry_run=options.dry_run)
        if commands.as_json:
            commands.write_json(_as_object(replies, request_id, code, waited))
        else:
            _print(commands, options, replies, request_id, waited)
        return code

    return with_errors(commands, work)


def kill_danger(name: str, sidecars: int) -> str:
    """Return what an operator has to confirm before a kill."""
    places = f"{sidecars} sidecars" if sidecars > 1 else "this sidecar"
    return f"{clean(name)} will be removed from every surface immediately and permanently, at {places}."


def _ask_all(clients: Sequence[OperatorClient], options: StepOptions, request_id: str) -> list[KillResult]:
    """Send all requests before awaiting an answer, so that an unreachable sidecar does not delay the kill at others."""
    header = lifecycle_pb2.StepHeader(
        definition_id=options.name,
        slot=options.slot,
        digest=options.digest,
        reason=options.reason,
        request_id=request_id,
        dry_run=options.dry_run,
    )
    # Without a revision: a kill must not fail because another operator has changed the slot.
    calls = [client.begin("Kill", lifecycle_pb2.KillRequest(header=header), STOPPING) for client in clients]
    replies = []
    # Awaited in turn, which costs no more than the slowest: all requests are running already.
    for client, call in zip(clients, calls, strict=True):
        try:
            replies.append(KillResult(client, client.answer_of(call, options.name).result))
        except CannotOperate as problem:
            replies.append(KillResult(client, problem=problem))
    return replies


def _wait_for_effect(commands: OperatorCommands, options: StepOptions, replies: Sequence[KillResult]) -> Waited | None:
    """With --wait, wait until every replica shows the kill; None: not waited.

    A kill that no sidecar has recorded yet has no version, so there is nothing to compare replicas with.
    """
    reached = [reply for reply in replies if reply.result]
    if not options.wait or options.dry_run or not reached:
        return None
    recorded = [reply for reply in reached if is_lasting(reply.result)]
    if not recorded:
        return UNRECORDED
    # The newest: if several sidecars recorded the kill, the later version contains the earlier one.
    version = max(reply.result.rollout_version for reply in recorded)
    # At one of those that recorded it: the others may not reach the store.
    return wait_for_replicas(recorded[0].client, commands, version, options.patience)


def _code(replies: Sequence[KillResult], waited: Waited | None, *, dry_run: bool) -> OperatorExit:
    """Return the exit code: done only if every sidecar was reached, the kill is recorded, and no replica lags."""
    results = [reply.result for reply in replies if reply.result]
    problems = [reply.problem for reply in replies if reply.problem]
    if not results:
        codes = {problem.code for problem in problems}
        # A refusal before "not asked": it is an answer, and a repetition would get the same one.
        return OperatorExit.REFUSED if OperatorExit.REFUSED in codes else OperatorExit.NOT_ASKED
    # One record is enough: all replicas read it.
    recorded = dry_run or any(map(is_lasting, results))
    shown = waited is None or not waited.laggards
    return OperatorExit.DONE if recorded and shown and not problems else OperatorExit.PARTIAL


def _as_object(
    replies: Sequence[KillResult], request_id: str, code: OperatorExit, waited: Waited | None
) -> dict[str, Any]:
    targets = [
        {
            "target": reply.client.target,
            "outcome": reply.outcome,
            "result": message_to_json(reply.result) if reply.result else None,
            "problem": reply.problem.as_object if reply.problem else None,
        }
        for reply in replies
    ]
    laggards = [] if waited is None else list(waited.laggards)
    answer = {"request_id": request_id, "exit_code": int(code), "targets": targets, "laggards": laggards}
    # With `problem`, as every other command that failed, so that a script need not know the list of targets.
    if all(reply.problem for reply in replies):
        # `next` finds a problem: if no sidecar was reached, `code` is the code of one of the problems.
        answer["problem"] = next(
            reply.problem.as_object for reply in replies if reply.problem and reply.problem.code is code
        )
    return answer


def _print(
    commands: OperatorCommands,
    options: StepOptions,
    replies: Sequence[KillResult],
    request_id: str,
    waited: Waited | None,
) -> None:
    lines = [[Part(f"{clean(options.name)}: kill, request id {request_id}", "bold")]]
    for reply in replies:
        if reply.problem:
            message = str(reply.problem).replace("\n", "; ")
            head = "REFUSED by" if reply.outcome == "refused" else "NOT REACHED:"
            lines.append([Part(f"{head} {reply.client.target}: {message}", "red")])
        else:
            lines.append([Part(f"reached: {reply.client.target}", "green")])
            lines += [[Part(*line)] for line in result_lines(reply.result, "Kill", dry_run=options.dry_run)]
    lines += [[Part(*line)] for line in ([] if waited is None else effect_lines(waited))]
    if any(reply.problem and reply.problem.uncertain for reply in replies):
        advice = f"repeat the command with --request-id {request_id} for the other sidecars; the kill is recorded once"
        lines.append([Part(f"next: {advice}", "yellow")])
    commands.screen.show(lines)
