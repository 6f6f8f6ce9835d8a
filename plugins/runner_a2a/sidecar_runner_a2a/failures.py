"""What a failed request says about the attempt: whether another may succeed, and whether the agent was there at all."""

from collections.abc import Iterator
from typing import Final

import httpx
from a2a.utils.errors import A2AError

from sidecar.core.faults import Fault, remedy_for
from sidecar.policy.faults import errno_of
from sidecar.policy.protocols import RunnerError
from sidecar_runner_a2a.http import TooMuch

SETTING: Final = "its address: `[targets]`, or `runner.target` of its card"
PASSING: Final = frozenset({408, 425, 429, 502, 503, 504})
"""HTTP statuses after which the same request may succeed."""
LONGEST: Final = 200
MOST_CAUSES: Final = 16


def error_of(error: BaseException, target: str, *, heard: bool) -> RunnerError:
    """Return what an error of the SDK or of the HTTP client means.

    Args:
        error: what was raised.
        target: where the agent is.
        heard: whether the agent had reported anything before.
    """
    for each in _causes(error):
        if isinstance(each, TooMuch):
            return RunnerError(f"the agent sent too much: {each}")
        if isinstance(each, httpx.HTTPStatusError):
            status = each.response.status_code
            return RunnerError(f"the agent answered with HTTP {status}", transient=status in PASSING)
        if isinstance(each, httpx.TransportError | OSError):
            errno = errno_of(each) or type(each).__name__
            fault = Fault(target, target, errno, remedy_for(errno, SETTING))
            words = "the connection to the agent broke" if heard else "the agent cannot be reached"
            return RunnerError(words, transient=True, unreachable=not heard, connection_lost=heard, fault=fault)
    if isinstance(error, A2AError):
        return RunnerError(f"the agent refused: {type(error).__name__}: {printable(str(error))}")
    return RunnerError(f"the agent sent what is not A2A: {type(error).__name__}")


def printable(text: str) -> str:
    """Return the beginning of a foreign text, safe for a log line."""
    return "".join(char if char.isprintable() else "?" for char in text[:LONGEST])


def _causes(error: BaseException) -> Iterator[BaseException]:
    found: BaseException | None = error
    for _ in range(MOST_CAUSES):
        if found is None:
            return
        yield found
        found = found.__cause__
