"""The order of a lane's operations: what must not overtake a dispatch that was sent before it."""

from collections.abc import Sequence
from typing import Final

from sidecar.rpc.session.operation import Operation

NAME_THEIR_DISPATCH: Final = frozenset({"resume_dispatch", "cancel_call"})
WAIT_FOR_ALL: Final = frozenset({"dispatch", "end_turn"})


class OpeningDispatches:
    """The dispatches of a lane that have been sent and have not begun, by turn, oldest first."""

    def __init__(self) -> None:
        self._of_turn: dict[str, list[Operation]] = {}

    def before(self, operation: Operation) -> Sequence[Operation]:
        """Return what must begin before an operation that has just come. If it is a dispatch, add it to the others.

        A resume or a cancel waits for the dispatch that it names; waiting for another one would delay a stop for as
        long as the store takes to open that one. A further dispatch and the end of the turn wait for all of the turn.
        All of them are returned, not only the newest: that one may be abandoned while it waits for the others itself.
        A bind names no turn, and the child that is closed belongs to a dispatch that has begun.
        """
        opening = self._of_turn.get(operation.token)
        if opening is None:
            if operation.kind == "dispatch":
                self._of_turn[operation.token] = [operation]
            return ()
        if operation.kind in NAME_THEIR_DISPATCH:
            return [each for each in opening if each.dispatch_id == operation.dispatch_id]
        earlier = tuple(opening) if operation.kind in WAIT_FOR_ALL else ()
        if operation.kind == "dispatch":
            opening.append(operation)
        return earlier

    def remove(self, dispatch: Operation) -> None:
        """Forget a dispatch: it has begun and ended, or it never begins."""
        opening = self._of_turn[dispatch.token]
        opening.remove(dispatch)
        if not opening:
            del self._of_turn[dispatch.token]
