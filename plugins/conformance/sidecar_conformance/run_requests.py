"""Requests and runs for the runner suite."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from sidecar.core.definitions.cards.card import AgentDefinition, Card, ModelEntry, Role
from sidecar.core.identifiers import (
    AttemptId,
    ChildId,
    Commit,
    DefinitionId,
    Digest,
    EpisodeId,
    ModelId,
    Principal,
    Slot,
    TurnId,
    Vertical,
)
from sidecar.policy.protocols import InheritedContext, Runner, RunnerError, RunnerEvent, RunRequest
from sidecar_conformance.runner_bench import AgentScript, RunnerBench
from sidecar_conformance.suite import SOON

PRINCIPAL: Final = Principal("user-7/é \"quoted\" 'ünïcode' e\u0301")
"""Contains unusual characters and spaces, because it must arrive byte for byte."""
GRANT: Final = "grant-5c1d.very-secret"
CONTRACT_JSON: Final = '{"run_id": "turn-1", "step_idx": 0, "title": "ask_scripted"}'
CARD: Final = Card(
    definition=AgentDefinition(
        id=DefinitionId("scripted"),
        description="Does what its request says.",
        role=Role.NATIVE,
        model=ModelId("none"),
        slot=Slot("scripted"),
        vertical=Vertical("conformance"),
    ),
    model=ModelEntry(id=ModelId("none"), provider_model="none", context_window=1000),
    tools=(),
    blocks=(),
    digest=Digest(f"sha256:{'5c' * 32}"),
    commit=Commit("0" * 40),
)
CONTEXT: Final = InheritedContext(
    principal=PRINCIPAL,
    episode_id=EpisodeId("episode-1"),
    turn_id=TurnId("turn-1"),
    locale="de-CH",
    location="Zürich",
    prior_context="They looked at Käse.\nThen at bread.",
    task_prompt='And now "both"?',
)


def request_for(script: AgentScript, child: str = "child-1", **changes: Any) -> RunRequest:
    """Return a request whose sub-agent executes `script`."""
    plain: dict[str, Any] = {
        "child_id": ChildId(child),
        "attempt_id": AttemptId(f"{child}-attempt-1"),
        "attempt": 1,
        "card": CARD,
        "arguments_json": json.dumps({"request": script.value}),
        "context": CONTEXT,
        "prompt_prefix": "You are a script.",
        "prompt_suffix": "Today is a day.",
        "contract_json": CONTRACT_JSON,
        "grant": GRANT,
        "timeout": timedelta(minutes=1),
    }
    return RunRequest(**{**plain, **changes})


@asynccontextmanager
async def made(bench: RunnerBench) -> AsyncIterator[Runner]:
    """Run the host of a bench, and yield a runner that calls it."""
    async with bench.running():
        runner = bench.make()
        try:
            yield runner
        finally:
            await asyncio.wait_for(runner.close(), SOON)


async def events_of(runner: Runner, request: RunRequest) -> Sequence[RunnerEvent]:
    """Run to the end, within `SOON` seconds, and return all events."""
    async with asyncio.timeout(SOON):
        return [event async for event in runner.run(request)]


async def failure_of(runner: Runner, request: RunRequest) -> BaseException | None:
    """Run to the end, within `SOON` seconds, and return the exception that it raised."""
    return (await events_and_failure_of(runner, request))[1]


async def events_and_failure_of(
    runner: Runner, request: RunRequest
) -> tuple[Sequence[RunnerEvent], BaseException | None]:
    """Run to the end, within `SOON` seconds, and return all events and the exception that it raised."""
    events: list[RunnerEvent] = []
    try:
        async with asyncio.timeout(SOON):
            async for event in runner.run(request):
                events.append(event)  # noqa: PERF401  what came before the error is wanted too
    except Exception as error:  # noqa: BLE001  the case looks at what it is
        return events, error
    return events, None


def hanging(runner: Runner, child: str = "child-1") -> "asyncio.Task[BaseException | None]":
    """Begin a run whose sub-agent hangs. The result of the task is the exception that the run raised."""

    async def run() -> BaseException | None:
        try:
            async for _ in runner.run(request_for(AgentScript.HANG, child)):
                pass
        except RunnerError as error:
            return error
        return None

    return asyncio.ensure_future(run())
