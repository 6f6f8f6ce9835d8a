"""Why an attempt failed, in words that hold nothing of the user's."""

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from langchain_core.exceptions import ModelError

from subagents_client.runner import TransientFailure

PASSING: Final = frozenset({408, 409, 425, 429})
"""Statuses of a model's provider after which the same request may succeed; so may any from 500 on."""


class AgentFailed(Exception):
    """The agent ended without an answer. The text says what was raised and where, never what it said."""


class CardNotRunnable(Exception):
    """No agent can be built from this card. The text is for the card's author and the host's operator."""


def failure_of(error: Exception) -> Exception:
    """Return what is raised instead of an exception whose text may quote the prompt.

    Returns:
        `TransientFailure` if the same request may succeed later, else `AgentFailed`.
    """
    words = f"{type(error).__name__} at {_place(error)}"
    return TransientFailure(words) if _is_passing(error) else AgentFailed(words)


def _is_passing(error: BaseException) -> bool:
    for each in _causes(error):
        if isinstance(each, ModelError):
            return each.is_retryable
        status = getattr(each, "status_code", None)
        if isinstance(status, int):
            return status in PASSING or status >= 500  # noqa: PLR2004 - the statuses of a server that failed
        if isinstance(each, ConnectionError | TimeoutError):
            return True
    return False


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and what it was raised from; providers wrap what their transport raised."""
    found: BaseException | None = error
    for _ in range(8):
        if found is None:
            return
        yield found
        found = found.__cause__


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
