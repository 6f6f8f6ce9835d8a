"""Notifies the watchers of a turn that this process has recorded facts of it.

This is only a hint: appends of other processes come without one, so watchers also poll the record.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sidecar.core.identifiers import TurnId
from sidecar.core.journal.entries import Draft
from sidecar.operations.record.delegated_reads import DelegatedReads
from sidecar.operations.record.ports import Store


class RecordHints:
    """The watchers of turns. Without watchers, an append costs one look at an empty dictionary."""

    def __init__(self) -> None:
        self._watchers: dict[TurnId, list[asyncio.Event]] = {}

    @property
    def watching(self) -> int:
        """The number of watchers."""
        return sum(len(wakers) for wakers in self._watchers.values())

    @contextmanager
    def watched(self, turn_id: TurnId) -> Iterator[asyncio.Event]:
        """Watch a turn; yields an event that is set whenever facts of the turn were appended."""
        waker = asyncio.Event()
        wakers = self._watchers.setdefault(turn_id, [])
        wakers.append(waker)
        try:
            yield waker
        finally:
            # Also after an error or a cancellation: a watcher that stayed would count against the limit for ever.
            wakers.remove(waker)
            if not wakers:
                del self._watchers[turn_id]

    def appended(self, drafts: Sequence[Draft]) -> None:
        """Wake the watchers of the turns of `drafts`."""
        if not self._watchers:  # the usual case, at each append
            return
        for draft in drafts:
            for waker in self._watchers.get(draft.turn_id, ()):
                waker.set()


class NotifyingStore(DelegatedReads):
    """A store that sends a hint after each append."""

    def __init__(self, store: Store, hints: RecordHints) -> None:
        super().__init__(store)
        self._store = store
        self._hints = hints
        # Copied and not delegated: they never change, and `draft` is called for each fact.
        self.waits, self.shared, self.draft = store.waits, store.shared, store.draft

    async def append(self, drafts: Sequence[Draft]) -> None:
        """Append, then notify the watchers. See the port."""
        # The hint must follow the commit: a watcher that reads earlier would find nothing new and wait for the next
        # poll.
        await self._store.append(drafts)
        self._hints.appended(drafts)
