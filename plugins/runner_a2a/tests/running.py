"""Attempts of a runner, for tests."""

from collections.abc import Sequence
from typing import Any

from sidecar.policy.protocols import NarrationPart, RunnerError, RunnerEvent
from sidecar_conformance.run_requests import events_and_failure_of, request_for
from sidecar_conformance.runner_bench import AgentScript
from sidecar_runner_a2a.runner import A2aRunner


async def ran(runner: A2aRunner, *, last: bool = True, **changes: Any) -> Sequence[RunnerEvent]:
    """Run an attempt that has to succeed, and close the runner unless it is not its last."""
    events, failure = await _attempted(runner, last, changes)
    assert failure is None, failure
    return events


async def failed(runner: A2aRunner, *, last: bool = True, **changes: Any) -> RunnerError:
    """Run an attempt that has to fail, and close the runner unless it is not its last."""
    _, failure = await _attempted(runner, last, changes)
    assert isinstance(failure, RunnerError), failure
    return failure


async def _attempted(
    runner: A2aRunner, last: bool, changes: dict[str, Any]
) -> tuple[Sequence[RunnerEvent], BaseException | None]:
    try:
        return await events_and_failure_of(runner, request_for(AgentScript.ANSWER, **changes))
    finally:
        if last:
            await runner.close()


def text_of(events: Sequence[RunnerEvent]) -> str:
    """Return the answer's text."""
    return "".join(event.text for event in events if isinstance(event, NarrationPart))
