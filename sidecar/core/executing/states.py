"""The states of one delegated execution and the moves between them.

Not to be confused with the lifecycle of a definition (`dev` .. `rollback`), which shares no name with this (TN-6).
"""

from collections.abc import Mapping
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

from sidecar.core.errors import ChildClosed


@unique
class ExecutionState(StrEnum):
    """The state of a child. Source: SX-18 .. SX-24."""

    CREATED = "created"
    RUNNING = "running"
    WAITING_FOR_MERGE = "waiting_for_merge"
    COMPLETED = "completed"
    FAILED = "failed"
    CLOSED = "closed"


MOVES: Final[Mapping[ExecutionState, frozenset[ExecutionState]]] = MappingProxyType(
    {
        # To `failed` without `running`: a call that was not started, e.g. because no time was left.
        ExecutionState.CREATED: frozenset({ExecutionState.RUNNING, ExecutionState.FAILED}),
        ExecutionState.RUNNING: frozenset({ExecutionState.WAITING_FOR_MERGE, ExecutionState.FAILED}),
        ExecutionState.WAITING_FOR_MERGE: frozenset({ExecutionState.COMPLETED, ExecutionState.FAILED}),
        ExecutionState.COMPLETED: frozenset({ExecutionState.CLOSED}),
        ExecutionState.FAILED: frozenset({ExecutionState.CLOSED}),
        ExecutionState.CLOSED: frozenset(),
    }
)
"""The possible next states of each state. Failure is possible before `completed`. Source: SX-18, TN-97."""


def moved(source: ExecutionState, target: ExecutionState) -> ExecutionState:
    """Return `target` if the move is allowed.

    Raises:
        ChildClosed: `MOVES` does not have the move.
    """
    if target not in MOVES[source]:
        raise ChildClosed(f"a child that is {source} cannot become {target}")
    return target
