"""What may be sent again, and when.

Only requests that the contract calls safe to repeat come here, and only after failures that leave nothing half done:
the transport broke (UNAVAILABLE without an explanation of the sidecar), the sidecar says that something it needs is
away, that another sidecar has gone on with the turn, or it is overloaded and says when to come back. Nothing else is
ever repeated.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

import grpc

from subagents_client.errors import error_and_origin
from subagents_client.runtime import Chance, ClientRuntime, ClientTimeouts, Deadline
from subagents_errors import (
    DeadlineExceeded,
    DependencyUnavailable,
    Draining,
    InternalError,
    Overloaded,
    RecordConflict,
    SubagentsError,
)

Answer = TypeVar("Answer")


def is_retryable(error: SubagentsError) -> bool:
    """Whether a request that is safe to repeat may be repeated after this failure."""
    return isinstance(error, DependencyUnavailable | RecordConflict) or (
        isinstance(error, Overloaded) and error.retry_after is not None
    )


def backoff_before(attempt: int, error: SubagentsError, timeouts: ClientTimeouts, chance: Chance) -> float:
    """Return the seconds to wait before an attempt.

    Args:
        attempt: the one about to be made; 2 or more.
        error: how the one before it failed; its `retry_after` is waited for at least.
        timeouts: bounds of the pause.
        chance: spreads it between 0 and the bound.
    """
    bound = min(timeouts.first_backoff * 2 ** min(attempt - 2, 16), timeouts.longest_backoff)
    asked = error.retry_after or timedelta(0)
    return asked.total_seconds() + chance.uniform(0.0, bound.total_seconds())


async def retry_idempotent(
    send: Callable[[float], Awaitable[Answer]],
    method: str,
    timeout: timedelta,
    timeouts: ClientTimeouts,
    runtime: ClientRuntime,
) -> Answer:
    """Send a request that is safe to repeat, again if need be, until it is answered or time or attempts are up.

    A sidecar that is restarted drains and is then away for seconds; only the timeout bounds these attempts. A sidecar
    that is up and keeps refusing is asked `most_attempts` times.

    Args:
        send: sends it once, with the seconds that are left.
        method: its name and the address, for messages.
        timeout: for all attempts and pauses together.
        timeouts: how often and how fast.
        runtime: clock, sleep and chance.

    Raises:
        SubagentsError: the last failure.
    """
    deadline = Deadline(timeout, runtime.now)
    attempt, refusals = 1, 0
    while True:
        try:
            return await send(deadline.left())
        except grpc.aio.AioRpcError as failure:
            error, answered = error_and_origin(failure, method)
            refusals += answered and not isinstance(error, Draining)
            attempt += 1
            pause = backoff_before(attempt, error, timeouts, runtime.chance)
            if not is_retryable(error) or refusals >= timeouts.most_attempts or pause >= deadline.left():
                raise error from failure
        await runtime.sleep(pause)


def caller_can_mend(error: SubagentsError) -> bool:
    """Whether the request, not the moment, is at fault: then an exception serves better than made-up outcomes."""
    if isinstance(error, Overloaded):
        return error.retry_after is None
    return not isinstance(error, DependencyUnavailable | DeadlineExceeded | InternalError)
