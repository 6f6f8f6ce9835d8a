"""A recorded turn, sent through today's code again, comes to the same; and a changed join does not."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from sidecar.composition.replaying import ReplayReport, replayed
from sidecar.core.dispatching.retrying import RetryRules
from sidecar.core.replaying.document import ReplayDocument, document_from_json
from sidecar.policy.protocols import (
    ComponentMade,
    NarrationPart,
    RunFinished,
    RunnerError,
    RunnerEvent,
    RunRequest,
    UsageReported,
)
from subagents.history.v1 import history_pb2, history_pb2_grpc
from tests.support.builders import a_card, with_limits
from tests.support.fake_runner import (
    Script,
    ScriptedRunner,
    answers,
    ends_early,
    fails_first,
    hangs,
    lies,
    raises,
)
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.requirement import requirement

FLAKY = RunnerError("connection reset", transient=True)
CARD = ComponentMade("render_card", '{"id": 1}', '{"title": "Offer"}')
QUICK = {"retries": RetryRules(first_backoff=0.005, longest_backoff=0.01)}


async def exported(sidecar: SidecarForTests, turn_id: str) -> ReplayDocument:
    """Export a turn over the RPC, as the command does."""
    stub = history_pb2_grpc.HistoryServiceStub(sidecar.channel)
    request = history_pb2.ExportReplayRequest(turn_id=turn_id)
    pieces = [piece.document_json async for piece in stub.ExportReplay(request, metadata=sidecar.metadata)]
    return document_from_json("".join(pieces).encode())


async def replay_of(sidecar: SidecarForTests, turn_id: str) -> ReplayReport:
    """Export and replay a turn."""
    document = await exported(sidecar, turn_id)
    return await asyncio.to_thread(replayed, document, sidecar.definitions.card_by_digest)


def told(report: ReplayReport) -> list[tuple[str, str | None, int]]:
    """Return outcome, reason and attempts of every call that was replayed."""
    return [
        (each.outcome.value, each.reason and str(each.reason), each.attempts)
        for joined in report.replayed.joined.values()
        for each in joined
    ]


def uses_tokens(*totals: int) -> Script:
    """Report tokens, with something to say before each report."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        for total in totals:
            yield NarrationPart(f"{total};")
            yield UsageReported(total, 0)
        yield RunFinished()

    return script


ONE: dict[str, tuple[Script, dict[str, Any], tuple[str, str | None, int]]] = {
    "success": (answers("Two offers.", components=[CARD], usage=(3, 4)), {}, ("succeeded", None, 1)),
    "without-data": (answers(data_unavailable=True), {}, ("degraded", "DATA_UNAVAILABLE", 1)),
    "failure": (raises(RunnerError("a defect"), after="half"), {}, ("failed", "RUNNER_FAILED", 1)),
    "unreachable": (raises(RunnerError("away", unreachable=True)), {}, ("failed", "RUNNER_UNAVAILABLE", 1)),
    "raises": (raises(SystemExit(3)), {}, ("failed", "RUNNER_FAILED", 1)),
    "cancels-itself": (raises(asyncio.CancelledError()), {}, ("failed", "RUNNER_FAILED", 1)),
    "no-end": (ends_early(), {}, ("failed", "RESULT_INVALID", 1)),
    "lies": (lies(), {}, ("failed", "RESULT_INVALID", 1)),
    "retry": (fails_first(2, FLAKY), {"max_retries": 2}, ("succeeded", None, 3)),
    "retries-in-vain": (raises(FLAKY), {"max_retries": 1}, ("failed", "RUNNER_FAILED", 2)),
    "timeout": (hangs(), {"attempt_timeout": timedelta(milliseconds=30)}, ("failed", "ATTEMPT_TIMEOUT", 1)),
    "idle": (hangs(), {"idle_timeout": timedelta(milliseconds=30)}, ("failed", "RUNNER_IDLE", 1)),
    "wall-clock": (hangs(), {"wall_clock": timedelta(milliseconds=30)}, ("degraded", "BUDGET_EXHAUSTED", 1)),
    "tokens": (uses_tokens(40, 80, 120), {"tokens": 100}, ("degraded", "BUDGET_EXHAUSTED", 1)),
}


@requirement("PC1-FR-10d", "SX-48")
@pytest.mark.parametrize(("script", "limits", "expected"), ONE.values(), ids=ONE)
async def test_a_turn_with_one_call_comes_to_the_same(
    script: Script, limits: dict[str, Any], expected: tuple[str, str | None, int]
) -> None:
    """Whatever the sub-agent did, outcome, reason, answer and attempts are as they were told."""
    cards = [with_limits(a_card("shop", components={"render_card": {"type": "object"}}), **limits)]
    async with running_sidecar_for_tests(cards=cards, rules=QUICK) as sidecar:
        sidecar.runner.use("shop", script)
        bound = await sidecar.bind(turn_id="t")
        await sidecar.dispatch(bound, "ask_shop")

        report = await replay_of(sidecar, "t")

        assert (report.differences, report.notes) == ((), ())
        assert told(report) == [expected]
