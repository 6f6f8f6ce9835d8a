"""`sidecar subagent kill`: at several sidecars at the same time, naming those that it reached and those it did not."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from sidecar.cli.drawing import Part, clean
from sidecar.cli.subagent_client import STOPPING, CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent_reading import INTERRUPTED, Operating, spoken
from sidecar.cli.subagent_steps import StepWish, confirm, result_lines
from sidecar.cli.subagent_waiting import wait_for_replicas
from subagents.lifecycle.v1 import lifecycle_pb2


@dataclass(frozen=True, slots=True)
class Shot:
    """What came of it at one sidecar: an answer, or why there is none."""

    client: OperatorClient
    result: Any = None
    problem: CannotOperate | None = None


def kill(operating: Operating, wish: StepWish) -> int:
    """Kill a definition at every target, with one request id; return the exit code."""
    request_id = wish.request_id or operating.new_id()
    targets = operating.where.targets
    try:
        places = f"{len(targets)} sidecars" if len(targets) > 1 else "this sidecar"
        danger = f"{clean(wish.name)} goes off every surface at once, for everybody and for good; asked of {places}."
        confirm(operating, wish, danger)
        with ExitStack() as opened:
            clients = [opened.enter_context(OperatorClient(each, operating.where.token)) for each in targets]
            shots = _shots(clients, wish, request_id)
            laggards = _laggards(operating, wish, shots)
    except CannotOperate as problem:
        operating.errors.write(f"{problem}\n")
        return problem.code
    except KeyboardInterrupt:
        operating.errors.write(INTERRUPTED)
        return OperatorExit.PARTIAL
    code = _code(shots, laggards, dry_run=wish.dry_run)
    if operating.as_json:
        operating.write_json(_object(shots, request_id, code, laggards))
    else:
        _tell(operating, wish, shots, request_id, laggards)
    return code


def _shots(clients: Sequence[OperatorClient], wish: StepWish, request_id: str) -> list[Shot]:
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
            shots.append(Shot(client, client.answer_of(call, wish.name).result))
        except CannotOperate as problem:
            shots.append(Shot(client, problem=problem))
    return shots


def _laggards(operating: Operating, wish: StepWish, shots: Sequence[Shot]) -> Sequence[str]:
    reached = [shot for shot in shots if shot.result]
    if not wish.wait or wish.dry_run or not reached:
        return ()
    version = max(shot.result.version for shot in reached)
    return wait_for_replicas(reached[0].client, operating, version, wish.patience).laggards


def _code(shots: Sequence[Shot], laggards: Sequence[str], *, dry_run: bool) -> OperatorExit:
    results = [shot.result for shot in shots if shot.result]
    problems = [shot.problem for shot in shots if shot.problem]
    if not results:
        codes = {problem.code for problem in problems}
        return OperatorExit.REFUSED if OperatorExit.REFUSED in codes else OperatorExit.NOT_ASKED
    recorded = dry_run or any("record" in result.reached for result in results)
    return OperatorExit.DONE if recorded and not problems and not laggards else OperatorExit.PARTIAL


def _object(shots: Sequence[Shot], request_id: str, code: OperatorExit, laggards: Sequence[str]) -> dict[str, Any]:
    targets = [
        {
            "target": shot.client.target,
            "result": spoken(shot.result) if shot.result else None,
            "problem": str(shot.problem) if shot.problem else "",
        }
        for shot in shots
    ]
    return {"request_id": request_id, "exit_code": int(code), "targets": targets, "laggards": list(laggards)}


def _tell(
    operating: Operating, wish: StepWish, shots: Sequence[Shot], request_id: str, laggards: Sequence[str]
) -> None:
    lines = [[Part(f"{clean(wish.name)}: kill, request id {request_id}", "bold")]]
    for shot in shots:
        if shot.problem:
            words = str(shot.problem).replace("\n", "; ")
            lines.append([Part(f"NOT reached: {shot.client.target}: {words}", "red")])
        else:
            lines.append([Part(f"reached: {shot.client.target}", "green")])
            lines += [[Part(*line)] for line in result_lines(shot.result, dry_run=wish.dry_run)]
    lines += [[Part(f"not yet in effect: {each}", "yellow")] for each in laggards]
    if any(shot.problem and shot.problem.uncertain for shot in shots):
        again = f"run this again with --request-id {request_id} for those that were not reached: it is counted once"
        lines.append([Part(f"next: {again}", "yellow")])
    operating.screen.show(lines)
