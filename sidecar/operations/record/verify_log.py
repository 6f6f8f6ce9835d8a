"""Verifies a whole record against itself and against the signed checkpoints, one child at a time.

Works while sidecars append to the record: the files were read first, then the running roots, then the children, so that
each part holds at least what the part before names; what seems to be missing is looked for once more.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from msgspec import Struct, field

from sidecar.core.executing.checkpoints import Claims, Judgement, SignatureJudge, marker_bytes
from sidecar.core.executing.findings import Finding
from sidecar.core.executing.stored_record import (
    ClosedChild,
    ClosedState,
    RetentionMarker,
    StoredChild,
    StoredTurn,
    TurnQuery,
    TurnRow,
)
from sidecar.core.executing.verify_checkpoints import LinesVerifier, marker_findings
from sidecar.core.executing.verify_child import child_findings, turn_findings
from sidecar.core.executing.verify_roots import ClosedChildren, RootWalk, newest_markers
from sidecar.core.identifiers import InstanceId, TurnId

PAGE: Final = 500
"""Turns that are listed at once."""


class RecordUnreadable(Exception):
    """A record, or what it is verified with, cannot be read; says which and why."""


class RecordToVerify(Protocol):
    """What is read of a record: the reading half of `RecordArchive`, and the turns of `RecordReads`."""

    async def closed_states(self) -> Sequence[ClosedState]:
        """Return where the running root of every instance stands."""

    def closed_children(self, instance: InstanceId) -> AsyncIterator[ClosedChild]:
        """Go through the links of an instance's running root that are kept, by number."""

    def children(self) -> AsyncIterator[StoredChild]:
        """Go through all children that are kept."""

    async def markers(self) -> Sequence[RetentionMarker]:
        """Return every marker, by instance and number."""

    async def turns(self, query: TurnQuery) -> Sequence[TurnRow]:
        """Return a list of turns, newest first."""

    async def turn(self, turn_id: TurnId) -> StoredTurn | None:
        """Return all of a turn."""


class SecondPlace(Struct, frozen=True):
    """The checkpoints to verify against.

    Attributes:
        files: the lines of each file, each with its end; read once.
        judge: knows the public keys.
    """

    files: Sequence[Iterable[bytes]]
    judge: SignatureJudge


class Looked(Struct):
    """What was looked at, and what could not be known."""

    checkpoints: int = 0
    torn: int = 0
    markers: int = 0
    instances: int = 0
    closed: int = 0
    children: int = 0
    events: int = 0
    turns: int = 0
    open: int = 0
    unsigned: dict[InstanceId, int] = field(default_factory=dict)


class LogVerification:
    """One verification of one record.

    Args:
        record: what to verify.
        place: the second place; None: the record is verified against itself only.
        progress: told what has been looked at, often.
    """

    def __init__(self, record: RecordToVerify, place: SecondPlace | None, progress: Callable[[Looked], None]) -> None:
        """Begin with nothing looked at."""
        self._record = record
        self._place = place
        self._progress = progress
        self._claims = Claims()
        self._closed = ClosedChildren()
        self._markers: dict[InstanceId, RetentionMarker] = {}
        self._kept_before: datetime | None = None
        self.looked = Looked()

    async def findings(self) -> AsyncIterator[Finding]:
        """Yield everything that is wrong; go through it once.

        Raises:
            StoreUnavailable: the record cannot be read.
            OSError: a checkpoint file cannot be read.
        """
        for finding in self._of_files():
            yield finding
        states = {state.instance: state for state in await self._record.closed_states()}
        async for finding in self._of_markers():
            yield finding
        for instance in sorted({**states, **self._markers, **self._claims.roots}):
            async for finding in self._of_root(instance, states.get(instance)):
                yield finding
        async for finding in self._of_children():
            yield finding
        async for finding in self._of_turns():
            yield finding

    def notices(self) -> Iterator[str]:
        """Yield what cannot be known, a sentence each; complete once the findings are through."""
        looked = self.looked
        if self._place is None:
            yield (
                "no checkpoints were given: neither a running root that was written anew as a whole, "
                "nor a forged retention marker, nor a cut end can be seen"
            )
        else:
            for instance, number in looked.unsigned.items():
                what = f"{number} closed children of instance {instance}"
                yield f"{what} come after its last checkpoint: they are protected by the chain only"
        if looked.open:
            yield f"{looked.open} children are open: they are protected by the chain only, which shows no cut tail"
        if looked.torn:
            yield f"{looked.torn} unfinished writes are in the checkpoint files; nothing is missing around them"

    def _of_files(self) -> Iterator[Finding]:
        if self._place is None:
            return
        for lines in self._place.files:
            verifier = LinesVerifier(self._claims, self._place.judge)
            yield from verifier.findings(lines)
            self.looked.checkpoints += verifier.lines
            self.looked.torn += verifier.torn
            self._progress(self.looked)

    async def _of_markers(self) -> AsyncIterator[Finding]:
        markers = await self._record.markers()
        self._take_in(markers)
        self.looked.markers = len(markers)
        if self._place is not None:
            for finding in marker_findings(markers, self._place.judge, self._claims):
                yield finding

    def _take_in(self, markers: Sequence[RetentionMarker]) -> None:
        self._markers = newest_markers(markers)
        trusted = [marker.closed_before for marker in markers if self._is_ours(marker)]
        self._kept_before = max(trusted, default=None)

    def _is_ours(self, marker: RetentionMarker) -> bool:
        if self._place is None:
            return True
        return self._place.judge.judge(marker.key_id, marker_bytes(marker), marker.signature) is Judgement.FITS

    async def _of_root(self, instance: InstanceId, state: ClosedState | None) -> AsyncIterator[Finding]:
        walk: RootWalk | None = None
        async for link in self._record.closed_children(instance):
            if walk is None:
                marker = self._markers.get(instance)
                if link.number != (marker.number if marker else 0) + 1:  # removed since the markers were read?
                    self._take_in(await self._record.markers())
                walk = self._walk(instance, state)
                for finding in walk.begin():
                    yield finding
            for finding in (*walk.take(link), *self._closed.take(link)):
                yield finding
            self.looked.closed += 1
            self._progress(self.looked)
        if walk is None:
            walk = self._walk(instance, state)
            for finding in walk.begin():
                yield finding
        for finding in walk.end():
            yield finding
        self.looked.instances += 1
        if walk.unsigned:
            self.looked.unsigned[instance] = walk.unsigned

    def _walk(self, instance: InstanceId, state: ClosedState | None) -> RootWalk:
        return RootWalk(instance, self._markers.get(instance), state, self._claims.of(instance))

    async def _of_children(self) -> AsyncIterator[Finding]:
        async for child in self._record.children():
            for finding in (*child_findings(child), *self._closed.check(child, self._kept_before)):
                yield finding
            self.looked.children += 1
            self.looked.events += len(child.events)
            self._progress(self.looked)
        self.looked.open = self._closed.open
        await self._look_again_for_late_ones()
        self._take_in(await self._record.markers())
        for finding in (*self._closed.still_late(), *self._closed.not_there(self._removed())):
            yield finding

    async def _look_again_for_late_ones(self) -> None:
        """Forget those that were closed after the running roots were read."""
        if not self._closed.late:
            return
        for state in await self._record.closed_states():
            async for link in self._record.closed_children(state.instance):
                if self._closed.late.get(link.child_id) == link.last_link:
                    del self._closed.late[link.child_id]

    def _removed(self) -> Mapping[InstanceId, int]:
        return {instance: marker.number for instance, marker in self._markers.items()}

    async def _of_turns(self) -> AsyncIterator[Finding]:
        query: TurnQuery | None = TurnQuery(limit=PAGE)
        while query is not None:
            rows = await self._record.turns(query)
            for row in rows:
                turn = await self._record.turn(row.turn_id)
                if turn is not None and not self._may_be_shortened(row):
                    for finding in turn_findings(turn):
                        yield finding
                self.looked.turns += 1
                self._progress(self.looked)
            last = rows[-1] if rows else None
            query = TurnQuery(before=(last.began_at, last.turn_id), limit=PAGE) if last is not None else None

    def _may_be_shortened(self, row: TurnRow) -> bool:
        """Say whether retention may have removed some of the turn's children already."""
        return self._kept_before is not None and row.ended_at is not None and row.ended_at < self._kept_before
