"""`sidecar subagent kill`: at several sidecars at once, naming those that it reached, that refused, and the others."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from sidecar.cli.output.drawing import Part, clean
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.client import STOPPING, CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.results import is_lasting, result_lines
from sidecar.cli.subagent.steps import StepWish, confirm
from sidecar.cli.subagent.views import OperatorCommands, guarded
from sidecar.cli.subagent.waiting import UNRECORDED, Waited, effect_lines, wait_for_replicas
from subagents.lifecycle.v1 import lifecycle_pb2


@dataclass(frozen=True, slots=True)
class KillResult:
    """What came of it at one sidecar: an answer, or why there is none."""

    client: OperatorClient
    result: Any = None
    problem: CannotOperate | None = None

    @property
    def outcome(self) -> str:
        """`reached`, `refused` (it answered, and holds nothing), or `not_reached` (nobody knows)."""
        if self.problem is None:
            return "reached"
        return "refused" if self.problem.reason and not self.problem.uncertain else "not_reached"


def kill(operating: OperatorCommands, wish: StepWish) -> int:
    """Kill a definition at every target, with one request id; return the exit code."""
    request_id = wish.request_id or operating.new_id()
    targets = operating.where.targets

    def work() -> OperatorExit:
        places = f"{len(targets)} sidecars" if len(targets) > 1 else "this sidecar"
        danger = f"{clean(wish.name)} goes off every surface at once, for everybody and for good; asked of {places}."
        confirm(operating, wish, danger)
        with ExitStack() as opened:
            clients = [opened.enter_context(OperatorClient(each, operating.where.token)) for each in targets]
            shots = _shots(clients, wish, request_id)
            waited = _waited(operating, wish, shots)
        code = _code(shots, waited, dry_run=wish.dry_run)
        if operating.as_json:
            operating.write_json(_object(shots, request_id, code, waited))
        else:
            _tell(operating, wish, shots, request_id, waited)
        return code

    return guarded(operating, work)


def _shots(clients: Sequence[OperatorClient], wish: StepWish, request_id: str) -> list[KillResult]:
    """Ask all before waiting for any: one that is away holds no other up."""
    header = lifecycle_pb2.StepHeader(
        definition_id=wish.name,
        slot=wish.slot,
        digest=wish.digest,
        reason=wish.reason,
        request_id=request_id,
        dry_run=wish.dry_run,
    )
    calls = [client.begin("Kill", lifecycle_pb2.KillRequest(header=header), STOPPING) for client in clients]
    shots = []
    for client, call in zip(clients, calls, strict=True):
        try:
            shots.append(KillResult(client, client.answer_of(call, wish.name).result))
        except CannotOperate as problem:
            shots.append(KillResult(client, problem=problem))
    return shots


def _waited(operating: OperatorCommands, wish: StepWish, shots: Sequence[KillResult]) -> Waited | None:
    """Wait until every replica shows it, if that is wished; None: nothing was waited for."""
    reached = [shot for shot in shots if shot.result]
    if not wish.wait or wish.dry_run or not reached:
        return None
    recorded = [shot for shot in reached if is_lasting(shot.result)]
    if not recorded:
        return UNRECORDED
    version = max(shot.result.rollout_version for shot in recorded)
    return wait_for_replicas(recorded[0].client, operating, version, wish.patience)


def _code(shots: Sequence[KillResult], waited: Waited | None, *, dry_run: bool) -> OperatorExit:
    results = [shot.result for shot in shots if shot.result]
    problems = [shot.problem for shot in shots if shot.problem]
    if not results:
        codes = {problem.code for problem in problems}
        return OperatorExit.REFUSED if OperatorExit.REFUSED in codes else OperatorExit.NOT_ASKED
    recorded = dry_run or any(map(is_lasting, results))
    shown = waited is None or not waited.laggards
    return OperatorExit.DONE if recorded and shown and not problems else OperatorExit.PARTIAL


def _object(shots: Sequence[KillResult], request_id: str, code: OperatorExit, waited: Waited | None) -> dict[str, Any]:
    targets = [
        {
            "target": shot.client.target,
            "outcome": shot.outcome,
            "result": message_to_json(shot.result) if shot.result else None,
            "problem": shot.problem.spoken if shot.problem else None,
        }
        for shot in shots
    ]
    laggards = [] if waited is None else list(waited.laggards)
    made = {"request_id": request_id, "exit_code": int(code), "targets": targets, "laggards": laggards}
    if all(shot.problem for shot in shots):
        made["problem"] = next(shot.problem.spoken for shot in shots if shot.problem and shot.problem.code is code)
    return made


def _tell(
    operating: OperatorCommands, wish: StepWish, shots: Sequence[KillResult], request_id: str, waited: Waited | None
) -> None:
    lines = [[Part(f"{clean(wish.name)}: kill, request id {request_id}", "bold")]]
    for shot in shots:
        if shot.problem:
            words = str(shot.problem).replace("\n", "; ")
            head = "REFUSED by" if shot.outcome == "refused" else "NOT reached:"
            lines.append([Part(f"{head} {shot.client.target}: {words}", "red")])
        else:
            lines.append([Part(f"reached: {shot.client.target}", "green")])
            lines += [[Part(*line)] for line in result_lines(shot.result, "Kill", dry_run=wish.dry_run)]
    lines += [[Part(*line)] for line in ([] if waited is None else effect_lines(waited))]
    if any(shot.problem and shot.problem.uncertain for shot in shots):
        again = f"run this again with --request-id {request_id} for those that were not reached: it is counted once"
        lines.append([Part(f"next: {again}", "yellow")])
    operating.screen.show(lines)
