"""Decides which of a turn's waiting calls may run now.

A call runs as soon as no earlier call owns the same data and its dispatch has a free place. Different sub-agents own
different data unless their cards declare otherwise (TN-21). Two calls of one sub-agent always share its slot, so they
run one after the other (TN-17).
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec


class QueuedCall(msgspec.Struct, frozen=True):
    """A call that waits for its slot, or runs.

    Attributes:
        key: a name of the call, unique in the turn.
        group: the dispatch of the call.
        parallel: the maximum number of calls of the group that may run concurrently; at least 1.
        boundaries: the slot and the data that the call owns while it runs.
    """

    key: str
    group: str
    parallel: int
    boundaries: tuple[str, ...]


class SlotQueues:
    """The calls of one turn that wait or run, in order of arrival.

    Attributes:
        waiting: in order of arrival.
        running: by key.
    """

    def __init__(self) -> None:
        self.waiting: Sequence[QueuedCall] = ()
        # Dictionaries and lists, never sets: their order decides which call starts first, and a replay must see the
        # same.
        self._running: dict[str, QueuedCall] = {}
        self.running: Mapping[str, QueuedCall] = self._running
        # Delegated calls: they own data like running calls, and take no place under the cap.
        self._beside: dict[str, QueuedCall] = {}

    @property
    def occupied(self) -> int:
        """The number of waiting and running calls, which the cap limits.

        A delegation uses the place of its waiting caller.
        """
        return len(self.waiting) + len(self._running)

    def enter(self, calls: Sequence[QueuedCall]) -> None:
        """Add calls behind the waiting ones."""
        self.waiting = (*self.waiting, *calls)

    def leave(self, key: str) -> None:
        """Remove a call that has ended or no longer waits. Unknown keys are ignored."""
        if self._running.pop(key, None) is None and self._beside.pop(key, None) is None:
            self.waiting = [call for call in self.waiting if call.key != key]

    def start_beside(self, call: QueuedCall, lenders: Collection[str]) -> bool:
        """Start a delegated call now, or refuse it: its caller holds slots itself, so waiting could deadlock.

        Args:
            call: its key is unique in the turn; `leave` removes it.
            lenders: keys of the calls that wait for this call; it may use the slots and data that they own.

        Returns:
            False if another call holds, or waits for, what this call would own: no call is overtaken.
        """
        lent = {boundary for each in self._holding() if each.key in lenders for boundary in each.boundaries}
        held = {boundary for each in self._holding() if each.key not in lenders for boundary in each.boundaries}
        awaited = {boundary for each in self.waiting for boundary in each.boundaries}
        # Calls may wait for what the callers own; this call still overtakes none of them, because they cannot start
        # before the callers have ended.
        if not (held | (awaited - lent)).isdisjoint(call.boundaries):
            return False
        self._beside[call.key] = call
        return True

    def _holding(self) -> Sequence[QueuedCall]:
        return (*self._running.values(), *self._beside.values())

    def start_ready(self) -> tuple[str, ...]:
        """Move every call that may run now to the running ones; return their keys, in order of arrival."""
        if not self.waiting:
            return ()
        # With delegated calls: they own data like any running call, although they take no place under the cap.
        taken = {boundary for call in self._holding() for boundary in call.boundaries}
        groups = [call.group for call in self._running.values()]
        started, passed_over = [], []
        for call in self.waiting:
            if groups.count(call.group) < call.parallel and taken.isdisjoint(call.boundaries):
                groups.append(call.group)
                started.append(call)
            else:
                passed_over.append(call)
            # An earlier waiting call goes first: no call is overtaken within its own queue.
            taken.update(call.boundaries)
        self._running.update({call.key: call for call in started})
        self.waiting = passed_over
        return tuple([call.key for call in started])
