"""Erases the content of one user (requests, answers, tool data, frames, conversations) at an operator's request.

The record stays verifiable: links, and everything that decisions read, are in the parts of facts that remain. A signed
marker says how many facts lost their texts; it names no user.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from datetime import date
from itertools import groupby
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from sidecar.core.errors import AdmissionRefused, RecordConflict
from sidecar.core.identifiers import InstanceId, Principal, TurnId
from sidecar.core.journal.appends import TurnFacts
from sidecar.core.journal.encoding import UnreadableFact, draft_of
from sidecar.core.journal.entries import Stored
from sidecar.core.journal.markers import erasure_of
from sidecar.core.journal.turn_state import state_of
from sidecar.core.verifying.checkpoint_lines import erasure_statement
from sidecar.core.verifying.verify_turn import first_day
from sidecar.operations.ports import Clock, Ids
from sidecar.operations.record.checkpoint_ports import CheckpointSigner, CheckpointStore
from sidecar.operations.record.ports import RecordArchive

PAGE: Final = 200
"""Turns whose texts are erased in one transaction; other writers continue in between."""
MOST_LOOKS: Final = 5
"""The most searches of the record in one erasure. The first finds the user's content, the last must find none."""


class Conversations(Protocol):
    """What an erasure needs of the episode memories."""

    async def erase(self, principal: Principal) -> int | None:
        """Remove all conversations of a user; return how many, None if a memory cannot. Raises `MemoryUnavailable`."""


class Lists(Protocol):
    """What an erasure needs of the projection: a `Projector`."""

    async def catch_up(self) -> None:
        """Derive the rows of lists again from the remaining facts. Raises `StoreUnavailable`."""


class ErasureReport(Struct, frozen=True, kw_only=True):
    """The progress of an erasure.

    Attributes:
        looked_at: turns that were read because their texts contain the user's id.
        turns: ended turns of the user that have texts.
        open_turns: open turns of the user; if there are any, nothing more is erased.
        facts: number of facts whose texts were erased so far.
        conversations: number of removed conversations; None: a memory cannot remove them, or turns are open.
        done: nothing of the user is left. Only the last report has it, and none if turns are open or for a preview.
    """

    looked_at: int = 0
    turns: int = 0
    open_turns: tuple[TurnId, ...] = ()
    facts: int = 0
    conversations: int | None = None
    done: bool = False


class EraseUser:
    """The operation. Only one erasure runs at a time.

    Args:
        archive: the record.
        lists: the projection of the record.
        conversations: the episode memories.
        signer, place: sign the markers, and store them outside the record.
    """

    def __init__(
        self,
        archive: RecordArchive,
        instance: InstanceId,
        lists: Lists,
        conversations: Conversations,
        signer: CheckpointSigner,
        place: CheckpointStore,
        clock: Clock,
        ids: Ids,
    ) -> None:
        """Begin without an erasure."""
        self._archive = archive
        self._instance = instance
        self._lists = lists
        self._conversations = conversations
        self._signer, self._place = signer, place
        self._clock, self._ids = clock, ids
        self._erasing = False

    async def __call__(self, principal: Principal, *, preview: bool) -> AsyncGenerator[ErasureReport, None]:
        """Erase the content of a user; yields reports of the progress.

        An interrupted erasure can be repeated: it continues with the remaining content. Conversations are erased last,
        so that the history's catch-up from the record does not restore them.

        Args:
            principal: the user.
            preview: only count the content.

        Raises:
            AdmissionRefused: another erasure runs.
            StoreUnavailable, MemoryUnavailable, CheckpointStoreUnavailable: what was reported so far is erased.
            RecordConflict: a turn cannot be read, or each search found more content; the message says what to do.
        """
        # There is no await between this check and the assignment, so two requests cannot both begin.
        if self._erasing:
            raise AdmissionRefused("texts are being erased already; wait for that", metadata={"limit": "erasures"})
        self._erasing = True
        try:
            async for erased in self._erase(principal, preview=preview):
                yield erased
        finally:
            self._erasing = False

    async def _erase(self, principal: Principal, *, preview: bool) -> AsyncGenerator[ErasureReport, None]:
        """Search and erase until a search finds nothing: turns may begin, or others may erase, at the same time."""
        erased, has_erased = ErasureReport(conversations=0), False
        for _ in range(MOST_LOOKS):
            found = _UserTurns(principal)
            async for looked_at in self._look(found):
                yield replace(erased, looked_at=looked_at)
            looked_at = max(erased.looked_at, found.looked_at)
            report = replace(erased, looked_at=looked_at, turns=erased.turns + len(found.ended))
            # An open turn still needs its texts: it could not be continued or ended. The operator ends it first.
            if preview or found.open:
                yield replace(report, open_turns=tuple(found.open), conversations=None)
                return
            # `done` needs one complete search after the last erasure: a turn that began during the erasure would
            # otherwise be missed.
            if has_erased and not found.ended:
                yield replace(report, done=True)
                return
            try:
                async for facts in self._erase_texts(found):
                    report = replace(report, facts=report.facts + facts)
                    yield report
            except RecordConflict:
                # Another sidecar has erased some of these texts: read the remaining ones again. The pages before this
                # one are erased, and their facts are counted in `report`.
                erased = replace(erased, looked_at=looked_at, facts=report.facts)
                continue
            # Lists hold the user's id. They are derived again before `compact`, so that the rewritten files contain no
            # old row.
            await self._lists.catch_up()
            await self._archive.compact()
            # After the record: the history catches up from the record, and would restore a conversation that was
            # removed first.
            removed = await self._conversations.erase(principal)
            total = None if removed is None or report.conversations is None else report.conversations + removed
            erased, has_erased = replace(report, conversations=total), True
        raise RecordConflict(
            f"content of the user was found in each of {MOST_LOOKS} looks: the user begins turns, or another sidecar "
            "erases the same user; keep the user out or wait for the other erasure, then run this again"
        )

    async def _look(self, found: "_UserTurns") -> AsyncGenerator[int, None]:
        """Read all turns that may belong to the user; yield the number of read turns from time to time."""
        seen: set[TurnId] = set()
        async for turn_id in self._archive.turns_saying(found.principal):
            # A turn can be found several times: each of its facts may contain the id.
            if turn_id not in seen:
                seen.add(turn_id)
                try:
                    found.take(turn_id, await self._archive.facts(turn_id))
                except UnreadableFact as why:
                    raise RecordConflict(
                        f"turn {turn_id} has the user's id in its texts and cannot be read ({why}), so nothing of it "
                        "can be erased: a newer sidecar has written it, or `sidecar verify-log` says what is wrong"
                    ) from None
                if len(seen) % PAGE == 0:
                    yield len(seen)

    async def _erase_texts(self, found: "_UserTurns") -> AsyncGenerator[int, None]:
        """Erase the texts of turns, some at a time; yield the number of facts."""
        # By day, because a marker is about the facts of one day.
        for day, of_day in groupby(sorted(found.ended), key=lambda each: each[0]):
            for turns in _pages([turn_id for _, turn_id in of_day]):
                # Read again: the search keeps only ids, because the turns of a user may not fit into memory.
                facts = {turn_id: (await self._archive.facts(turn_id)).facts for turn_id in turns}
                marker_id, now = self._ids.new("erasure"), self._clock.now()
                erasure = erasure_of(day, facts, marker_id, now, self._signer)
                if erasure is not None:
                    # The marker goes to the second place first. After a crash in between, a marker exists for texts
                    # that are still there, which is harmless; texts without a marker would be a finding of
                    # `verify-log`.
                    await self._place.append([erasure_statement(erasure.marker, self._instance)])
                    await self._archive.erase(erasure)
                    yield len(erasure.facts)


class _UserTurns:
    """The turns of a user.

    Attributes:
        principal: the user.
        looked_at: number of turns that were read.
        ended: ended turns, each with the day that it belongs to.
        open: open turns.
    """

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.looked_at = 0
        self.ended: list[tuple[date, TurnId]] = []
        self.open: list[TurnId] = []

    def take(self, turn_id: TurnId, found: TurnFacts) -> None:
        """Add a turn if it is the user's. Raises `UnreadableFact`."""
        self.looked_at += 1
        if not any(self._is_named_in(fact) for fact in found.facts):
            return
        if state_of(turn_id, found.facts).head.ended:
            self.ended.append((first_day(found), turn_id))
        else:
            self.open.append(turn_id)

    def _is_named_in(self, fact: Stored) -> bool:
        # Compared exactly: the search finds any text that contains the id, for example an id that begins with it.
        user = draft_of(fact).texts.user
        return user is not None and user.principal == self.principal


def _pages(turns: Sequence[TurnId]) -> Iterator[Sequence[TurnId]]:
    """Yield the turns in groups of at most `PAGE`."""
    for begin in range(0, len(turns), PAGE):
        yield turns[begin : begin + PAGE]
