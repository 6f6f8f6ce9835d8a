"""The order of a lane's operations: what must not overtake a dispatch that was sent before it."""

from collections.abc import Sequence
from typing import Final

from sidecar.rpc.session.operation import Operation

NAME_THEIR_DISPATCH: Final = frozenset({"resume_dispatch", "cancel_call"})
WAIT_FOR_ALL: Final = frozenset({"dispatch", "end_turn"})


def must_begin_before(operation: Operation, opening: Sequence[Operation]) -> Sequence[Operation]:
    """Return those of its turn's opening dispatches that must begin before an operation that has just come.

    A resume or a cancel waits for the dispatch that it names; if it waited for another one, a stop would take effect
    only after the store has opened that one. A further dispatch and the end of the turn wait for all of the turn. All
    of them are returned, not only the newest: that one may be abandoned while it waits for the others itself. The child
    that is closed belongs to a dispatch that has begun.
    """
    if operation.kind in NAME_THEIR_DISPATCH:
        return [each for each in opening if each.dispatch_id == operation.dispatch_id]
    return tuple(opening) if operation.kind in WAIT_FOR_ALL else ()
