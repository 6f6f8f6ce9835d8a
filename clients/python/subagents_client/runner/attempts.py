"""Runs one attempt: runs the function, streams its reports, and translates its result or exception."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import grpc

from subagents.runner.v1 import runner_pb2
from subagents_client.errors import status_of, trailer_of
from subagents_client.runner.answers import Answer, TransientFailure
from subagents_client.runner.questions import AsksBack
from subagents_client.runner.return_values import InvalidReturnValue, answer_of, place_of, place_of_error
from subagents_client.runner.run import Run
from subagents_errors import CallFailure, DeadlineExceeded, DependencyUnavailable, InternalError, SubagentsError

LOG: Final = logging.getLogger("subagents_client.runner")

SubAgentFunction = Callable[[Run], Awaitable[str | Answer]]
"""The type of a sub-agent's function, which a vertical writes."""

LONGEST_TEXT: Final = 300
"""Maximum number of characters of an exception's text in the log."""

RunContext = grpc.aio.ServicerContext[bytes, runner_pb2.RunResponse]


class AttemptFailed(Exception):
    """The function failed, or did not end in time.

    Args:
        error: the error for the sidecar; contains no text of the function's exception.
    """

    def __init__(self, error: SubagentsError) -> None:
        super().__init__(error.message)
        self.error = error


@dataclass(frozen=True, slots=True)
class _Crash:
    """The exception of the function. It is a value, because a task that raises e.g. `SystemExit` ends the process."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class _Asked:
    """The function asks a question."""

    question: runner_pb2.QuestionAsked


_Ended = Answer | _Asked | _Crash


class UncancelledTask:
    """The cancelled functions that have not ended. A reference to their tasks keeps asyncio from dropping them."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[_Ended], str] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def dismiss(self, task: asyncio.Task[_Ended], sub_agent_id: str) -> None:
        """Cancel a function, and hold its task until it ends. Does not wait."""
        if task.done():
            return
        task.cancel()
        self._tasks[task] = sub_agent_id
        task.add_done_callback(self._ended)

    async def ended(self, within: float) -> None:
        """Wait at most `within` seconds for all cancelled functions; log those that still run."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within)
        for name in self._tasks.values():
            LOG.warning("sub-agent %s ignores its cancellation and is abandoned", name)

    def _ended(self, task: asyncio.Task[_Ended]) -> None:
        self._tasks.pop(task, None)


async def run_attempt(run: Run, function: SubAgentFunction, context: RunContext, lingering: UncancelledTask) -> None:
    """Run a function, write its reports to the stream, and end the stream.

    Raises:
        AttemptFailed: the function raised, or did not end in time. Only the log has the text of its exception.
    """
    work = asyncio.create_task(_guarded(function, run), name=f"sub-agent {run.sub_agent_id}")
    try:
        async with asyncio.timeout(run.time_left):
            await _write_reports(run, work, context)
            answer, question = _answer_of(work, run, function)
            if answer.narration:
                await context.write(runner_pb2.RunResponse(narration=answer.narration))
            finished = runner_pb2.RunFinished(data_unavailable=answer.data_unavailable, question=question)
            await context.write(runner_pb2.RunResponse(finished=finished))
    except TimeoutError:
        raise AttemptFailed(DeadlineExceeded("the sub-agent did not end in time")) from None
    finally:
        lingering.dismiss(work, run.sub_agent_id)


async def _write_reports(run: Run, work: asyncio.Task[_Ended], context: RunContext) -> None:
    work.add_done_callback(lambda _: run.outbox.close())
    while True:
        report = run.outbox.take()
        if report is not None:
            await context.write(report)
        elif work.done():
            return
        else:
            await run.outbox.wait()


async def _guarded(function: SubAgentFunction, run: Run) -> _Ended:
    try:
        return await _answered(function, run)
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - SystemExit in a sub-agent must not end the host
        return _Crash(error)


async def _answered(function: SubAgentFunction, run: Run) -> Answer | _Asked:
    try:
        return answer_of(await function(run), function)
    except AsksBack as asked:
        return _Asked(asked.to_message())


def _answer_of(
    work: asyncio.Task[_Ended], run: Run, function: SubAgentFunction
) -> tuple[Answer, runner_pb2.QuestionAsked | None]:
    if work.cancelled():
        told = f"{place_of(function)} cancelled itself"
        LOG.error("sub-agent %s failed in attempt %s: %s", run.sub_agent_id, run.attempt_id, told)
        raise AttemptFailed(InternalError(told))
    ended = work.result()
    if isinstance(ended, Answer):
        return ended, None
    if isinstance(ended, _Asked):
        return Answer(), ended.question
    error = ended.error
    told = str(error) if isinstance(error, InvalidReturnValue) else place_of_error(error, function)
    _log(run, told, error)
    if isinstance(error, TransientFailure | DependencyUnavailable):
        raise AttemptFailed(DependencyUnavailable(told))
    raise AttemptFailed(InternalError(told))


def _log(run: Run, told: str, error: BaseException) -> None:
    """Write one line: what, where and, here only, the exception's text; its traceback at level DEBUG."""
    text = "" if isinstance(error, InvalidReturnValue) else " ".join(str(error).split())[:LONGEST_TEXT]
    words = f"{told}: {text}" if text else told
    LOG.error("sub-agent %s failed in attempt %s: %s", run.sub_agent_id, run.attempt_id, words)
    LOG.debug("attempt %s", run.attempt_id, exc_info=error)


async def reject_run(context: RunContext, error: SubagentsError, reason: str | None = None) -> None:
    """End the RPC with the status and the details of an exception."""
    await context.abort(status_of(type(error)), error.message, trailing_metadata=tuple(trailer_of(error, reason)))


def reason_of(failed: AttemptFailed) -> str | None:
    """Return the reason `RUNNER_FAILED`, or None for an attempt that did not end in time: its error has a reason."""
    return None if isinstance(failed.error, DeadlineExceeded) else CallFailure.RUNNER_FAILED
