"""A store over a journal. Its one writer decides about a batch after the previous commit has succeeded or failed.

Groups that arrive during a commit form the next batch. There is no timer: an append waits for nothing when the
database is idle, and shares a commit when it is not (DESIGN section 14).
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, field

from sidecar.core.errors import RecordConflict, StoreUnavailable, SubagentsError
from sidecar.core.identifiers import InstanceId, TurnId
from sidecar.core.journal.appends import TurnAppend
from sidecar.core.journal.encoding import UnreadableFact
from sidecar.core.journal.entries import AttemptFrames, Draft, Stored
from sidecar.core.journal.facts import Body, DispatchOpened
from sidecar.core.journal.texts import Texts
from sidecar.operations.first_result import FirstResult
from sidecar.operations.ports import Recorder, Spawner
from sidecar.operations.record.journal_reads import ReadsOfJournal
from sidecar.operations.record.kept_turn import KeptTurn
from sidecar.operations.record.lists import TurnListReader, lists_in_memory
from sidecar.operations.record.ports import CommitUnknown, Journal, unreadable_turn

MOST_IN_A_BATCH: Final = 2000
"""The most facts of one commit; a database takes a few milliseconds for that many."""
MOST_WAITING: Final = 20_000
"""The most facts that wait for a commit; further ones are refused immediately."""
MOST_TURNS: Final = 1000
"""The most turns that are cached; the least recently used turn is dropped and read again when needed."""
TURNS_IN_A_ROW: Final = 10
"""Turns that are decided before the loop yields to other tasks; after a disk that hung, many turns wait."""
MOST_TRIES: Final = 5
"""How often a group is decided again after another process has appended to its turn."""
AGAIN: Final = timedelta(seconds=1)
"""The time after which a caller should repeat an append that failed."""


class _Group(Struct):
    """The facts of one append, all of one turn."""

    drafts: tuple[Draft, ...]
    decided: FirstResult[SubagentsError | None] = field(default_factory=FirstResult)


class _Plan(Struct):
    """The decision about the groups of one turn in a batch: each is accepted or refused."""

    turn_id: TurnId
    append: TurnAppend | None = None
    groups: list[tuple[_Group, RecordConflict | None]] = field(default_factory=list)
    refuses: bool = False

    def tell(self) -> None:
        """Settle the waiting callers."""
        for group, refused in self.groups:
            group.decided.settle(refused)


class JournalStore(ReadsOfJournal):
    """The store port over a journal. `batches` is the number of attempted commits.

    Args:
        journal: stores the facts, one commit at a time.
        spawner: owns the writer, so that a caller that is cancelled does not stop a commit.
        recorder: receives unexpected events.
        salt: returns 16 random bytes.
        lists: informed of appends; by default all changes are projected whenever a list is requested.
    """

    def __init__(
        self,
        journal: Journal,
        spawner: Spawner,
        recorder: Recorder,
        salt: Callable[[], bytes],
        lists: TurnListReader | None = None,
    ) -> None:
        """Begin with an empty queue."""
        super().__init__(journal, lists or lists_in_memory(journal, recorder))
        self._journal, self._by, self._shared = journal, journal.instance, journal.shared
        self._spawner = spawner
        self._recorder = recorder
        self._salt = salt
        self._turns: OrderedDict[TurnId, KeptTurn] = OrderedDict()
        self._queue: deque[_Group] = deque()
        self._waiting = 0
        self._writing = False
        self.batches = 0

    @property
    def instance(self) -> InstanceId:
        """Return the id under which this process appends."""
        return self._journal.instance

    @property
    def waits(self) -> bool:
        """Return whether `append` may have to wait."""
        return self._journal.waits

    @property
    def shared(self) -> bool:
        """Return whether other processes may append to the same record."""
        return self._journal.shared

    def draft(
        self, turn_id: TurnId, at: datetime, body: Body, texts: Texts, frames: tuple[AttemptFrames, ...] = ()
    ) -> Draft:
        """Return a draft of this process, with its salt."""
        return Draft(turn_id, self._by, at, body, texts, self._salt(), frames)

    async def append(self, drafts: Sequence[Draft]) -> None:
        """Make `drafts`, all of one turn, durable, in order. See the port."""
        if drafts and self._waiting >= MOST_WAITING:
            raise StoreUnavailable(f"{self._waiting} records wait to be written already", retry_after=AGAIN)
        group = _Group(tuple(drafts))
        if not self._journal.waits:
            await self._write_batch([group])  # never suspends, so no other append can come in between
        else:
            self._queue.append(group)
            self._waiting += len(group.drafts)
            if not self._writing:
                self._writing = True
                # The writer is a task of the process and not of the caller: a caller that is cancelled must not
                # interrupt a commit in which other callers take part.
                self._spawner.spawn(self._write(), "write the record")
        refused = await group.decided.wait()
        if refused is not None:
            raise refused

    async def _write(self) -> None:
        """Write batches until the queue is empty."""
        try:
            while self._queue:
                await self._write_batch(self._next_batch())
        finally:
            self._writing = False  # the next append starts another writer
            _settle(list(self._queue), StoreUnavailable("the sidecar stops", retry_after=AGAIN))
            self._queue.clear()
            self._waiting = 0

    def _next_batch(self) -> list[_Group]:
        batch, size = [self._queue.popleft()], 0
        while self._queue and size + len(batch[-1].drafts) + len(self._queue[0].drafts) <= MOST_IN_A_BATCH:
            size += len(batch[-1].drafts)
            batch.append(self._queue.popleft())
        self._waiting -= sum(len(group.drafts) for group in batch)
        return batch

    async def _write_batch(self, batch: list[_Group]) -> None:
        """Decide a batch, commit the accepted groups, and settle the callers."""
        try:
            await self._decide_and_keep(batch)
        except StoreUnavailable as refused:
            _settle(batch, refused)
        except BaseException:
            _settle(batch, StoreUnavailable("the sidecar stops", retry_after=AGAIN))
            self._turns.clear()  # cached states may contain facts that were not committed
            raise
        _settle(batch, None)  # groups without drafts, which only wait for the earlier ones
        while len(self._turns) > MOST_TURNS:
            self._turns.popitem(last=False)

    async def _decide_and_keep(self, batch: list[_Group]) -> None:
        """Decide and commit a batch. Raises `StoreUnavailable` for all groups that are not decided by then."""
        unknown: CommitUnknown | None = None
        for attempt in range(MOST_TRIES):
            by_turn: dict[TurnId, list[_Group]] = {}
            for group in batch:
                if group.drafts and not group.decided.settled:
                    by_turn.setdefault(group.drafts[0].turn_id, []).append(group)
            if not by_turn:
                return
            plans: list[_Plan] = []
            for number, (turn_id, groups) in enumerate(by_turn.items(), 1):
                plans += filter(None, [await self._plan(turn_id, groups, again=attempt > 0)])
                if number % TURNS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
            try:
                await self._keep(plans)
            except CommitUnknown as why:
                self._recorder.anomaly("commit_unknown", f"{sum(map(len, by_turn.values()))} groups of records")
                # The first unknown commit is repeated: the store recognises recorded drafts by their salts.
                if unknown is not None:
                    raise StoreUnavailable(f"the result of a commit is unknown: {why}", retry_after=AGAIN) from None
                unknown = why
            except StoreUnavailable:  # nothing was stored, and no group is to blame
                raise
            except Exception as defect:  # noqa: BLE001  a defect of the database's adapter, or of one group
                await self._each_alone([group for groups in by_turn.values() for group in groups], defect)
                return
        raise StoreUnavailable("other sidecars append to the turn all the time", retry_after=AGAIN)

    async def _each_alone(self, groups: Sequence[_Group], defect: Exception) -> None:
        """Commit groups one by one to find the one that cannot be stored: it must not affect the others."""
        if len(groups) == 1:
            self._refuse_defect(groups[0], defect)
        else:
            for group in groups:
                await self._decide_and_keep([group])

    def _refuse_defect(self, group: _Group, defect: Exception) -> None:
        detail = f"a group of records cannot be kept: the store raised {type(defect).__name__}"
        self._recorder.anomaly("record_defect", detail)
        group.decided.settle(StoreUnavailable(detail, retry_after=AGAIN))

    # --- deciding

    async def _plan(self, turn_id: TurnId, groups: list[_Group], *, again: bool) -> _Plan | None:
        """Decide about the groups of one turn; None if the turn cannot be read now, or only defects are left.

        Memory may be outdated if others append to the journal (`again`: it was). A turn that is not in memory is
        assumed to be new if its first group can begin one. Neither does harm: see `docs/journal.md`.
        """
        turn = self._turns.get(turn_id)
        certain = turn is not None and not self._shared
        if turn is None and not again and isinstance(groups[0].drafts[0].body, DispatchOpened):
            turn = KeptTurn(turn_id)
        if turn is not None:
            plan = self._decide(turn, groups)
            # A refusal is final for its caller, so it must not rest on outdated memory. If other processes may append,
            # the turn is read and decided again before any group is refused. An acceptance needs no read: the database
            # compares the version.
            if plan is not None and (certain or not plan.refuses):
                return plan
        while groups := [each for each in groups if not each.decided.settled]:  # groups with defects are settled
            self._turns.pop(turn_id, None)
            try:
                plan = self._decide(KeptTurn(turn_id, (await self._journal.facts(turn_id)).facts), groups)
            except StoreUnavailable as refused:
                _settle(groups, refused)
            except UnreadableFact as why:
                _settle(groups, unreadable_turn(why))
            else:
                if plan is not None:
                    return plan
        return None

    def _decide(self, turn: KeptTurn, groups: list[_Group]) -> _Plan | None:
        """Decide the groups one after the other. `turn` then has the state that it has once they are recorded.

        None if a group raises: its caller gets the error, and the turn is dropped from memory.
        """
        state, plan = turn.standing, _Plan(turn.standing.turn_id)
        self._turns[state.turn_id] = turn
        self._turns.move_to_end(state.turn_id)
        before, index = state.head.version, state.index
        facts, frames = list[Stored](), list[AttemptFrames]()
        for group in groups:
            try:
                result = turn.take(group.drafts)
            except Exception as defect:  # noqa: BLE001  a defect of one group must not affect other callers
                self._refuse_defect(group, defect)
                del self._turns[state.turn_id]  # its state includes the groups before this one
                return None
            if isinstance(result, str):
                plan.groups.append((group, RecordConflict(result, metadata={"turn_id": state.turn_id})))
                plan.refuses = True
                continue
            plan.groups.append((group, None))
            facts += result.facts
            frames += result.frames
        if facts and state.day is not None:
            new, parts = state.index if state.index != index else None, (tuple(facts), tuple(frames))
            plan.append = TurnAppend(state.turn_id, state.day, before, state.head, new, *parts)
        return plan

    async def _keep(self, plans: Sequence[_Plan]) -> None:
        """Commit the accepted appends and settle the callers, except those of turns that changed elsewhere."""
        appends, stored = [each.append for each in plans if each.append is not None], dict[TurnId, bool]()
        if appends:
            self.batches += 1
            try:
                answers = await self._journal.append(appends)
            except BaseException:
                for append in appends:  # only the record knows the state of these turns now
                    self._turns.pop(append.turn_id, None)
                raise
            stored = {append.turn_id: answer for append, answer in zip(appends, answers, strict=True)}
            facts = 0
            for append in appends:
                facts += len(append.facts) if stored[append.turn_id] else 0
            self._lists.appended(facts)  # wakes the projector
        for plan in plans:  # those whose version differs are decided again by `_decide_and_keep`
            turn = self._turns.get(plan.turn_id)
            if not stored.get(plan.turn_id, True):
                self._turns.pop(plan.turn_id, None)
                continue
            if turn is not None and turn.standing.head.ended:
                del self._turns[plan.turn_id]  # an ended turn gets hardly any further facts
            plan.tell()


def _settle(groups: Sequence[_Group], refused: SubagentsError | None) -> None:
    for group in groups:
        group.decided.settle(refused)
