"""Sub-agents of the bench, in the sidecar's own process: what is measured is the sidecar, not a runner host."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from scripts.benchmark.definitions import ANSWER, RUNNER, SLEEP_SECONDS, SLEEPING
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.protocols import NarrationPart, RunFinished, RunnerEvent, RunRequest, StatusReported
from sidecar.policy.specs import RunnerConfig, RunnerSpec

STATUS_TYPES: Final = ("reading_request", "writing_answer")


class InstantRunner:
    """Reports twice and answers with a kilobyte: with snapshot, states and result, six things for a listener to hear.

    Args:
        seconds: slept before the answer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    @property
    def target(self) -> str:
        """Name what fails together."""
        return RUNNER

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Answer whatever is asked."""
        yield StatusReported(STATUS_TYPES[0])
        if self._seconds:
            await asyncio.sleep(self._seconds)
        yield StatusReported(STATUS_TYPES[1])
        yield NarrationPart(ANSWER)
        yield RunFinished()

    async def close(self) -> None:
        """Do nothing."""


def _make(config: RunnerConfig) -> InstantRunner:
    return InstantRunner(SLEEP_SECONDS if config.target == SLEEPING else 0.0)


@hookimpl
def sidecar_runners() -> Sequence[RunnerSpec]:
    """Offer the runner."""
    return [RunnerSpec(name=RUNNER, contract="runner/1", summary="answers at once, for the bench", factory=_make)]
