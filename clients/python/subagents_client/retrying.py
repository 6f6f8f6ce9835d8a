"""Decides which requests are sent again, and when.

Only requests that the contract calls safe to repeat are repeated, and only after one of these failures: the transport
broke (UNAVAILABLE without an explanation by the sidecar), the sidecar lacks something that it needs, another sidecar
has taken over the turn, or the sidecar is overloaded and sends `retry_after`.
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
    """Return whether a request that is safe to repeat may be repeated after this failure."""
    return isinstance(error, DependencyUnavailable | RecordConflict) or (
        isinstance(error, Overloaded) and error.retry_after is not None
    )


def backoff_before(attempt: int, error: SubagentsError, timeouts: ClientTimeouts, chance: Chance) -> float:
    """Return the seconds to wait before an attempt.

    Args:
        attempt: the number of this attempt; 2 or more.
        error: the failure of the previous attempt. Its `retry_after` is added to the pause.
        timeouts: the bounds of the pause.
        chance: chooses the pause between 0 and the bound, so that clients do not return all at once.
    """
    bound = min(timeouts.first_backoff * 2 ** min(attempt - 2, 16), timeouts.longest_backoff)
    required = error.retry_after or timedelta(0)
    return required.total_seconds() + chance.uniform(0.0, bound.total_seconds())


async def retry_idempotent(
    send: Callable[[float], Awaitable[Answer]],
    method: str,
    timeout: timedelta,
    timeouts: ClientTimeouts,
    runtime: ClientRuntime,
) -> Answer:
    """Send a request that is safe to repeat until it is answered, or until time or attempts are used up.

    While the sidecar drains or cannot be reached, as in a restart that takes seconds, only the timeout ends the
    attempts. A sidecar that answers with a refusal gets the request at most `most_attempts` times.

    Args:
        send: sends the request once; receives the seconds that are left.
        method: the name of the RPC and the address, for messages.
        timeout: for all attempts and pauses together.
        timeouts: the bounds of attempts and pauses.
        runtime: clock, sleep and randomness.

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
    """Return whether the caller must change the request: then the SDK raises an exception.

    False: the SDK makes synthetic outcomes, with which the turn can continue.
    """
    if isinstance(error, Overloaded):
        return error.retry_after is None
    return not isinstance(error, DependencyUnavailable | DeadlineExceeded | InternalError)
