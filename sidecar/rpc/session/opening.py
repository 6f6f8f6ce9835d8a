"""The order of a lane's operations: which of them must not overtake an earlier dispatch."""

from collections.abc import Sequence
from typing import Final

from sidecar.rpc.session.operation import Operation

NAME_THEIR_DISPATCH: Final = frozenset({"resume_dispatch", "cancel_call"})
WAIT_FOR_ALL: Final = frozenset({"dispatch", "end_turn"})


def must_begin_before(operation: Operation, opening: Sequence[Operation]) -> Sequence[Operation]:
    """Return the dispatches that must begin before a new operation of their turn.

    A resume or a cancel waits for the dispatch that it names. If it waited for others too, a cancel would take effect
    only after the store had opened them. A dispatch and the end of the turn wait for all earlier dispatches, not only
    for the newest: that one may be abandoned while it still waits itself. `CloseChild` waits for none, because its
    child exists only in a dispatch that has begun.

    Args:
        operation: has just arrived.
        opening: the dispatches of its turn that run or wait to begin; waiting for one that has begun takes no time.
    """
    if operation.kind in NAME_THEIR_DISPATCH:
        return [each for each in opening if each.dispatch_id == operation.dispatch_id]
    return tuple(opening) if operation.kind in WAIT_FOR_ALL else ()
