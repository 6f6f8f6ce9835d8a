"""The contents of a journal in memory, and the rules by which old turns are dropped to limit the memory."""

from collections import OrderedDict
from datetime import date
from typing import Final

from msgspec import Struct, field

from sidecar.core.identifiers import AttemptId, EpisodeId, InstanceId, TurnId
from sidecar.core.journal.appends import TurnAppend, TurnIndex
from sidecar.core.journal.chain import NOTHING, rooted
from sidecar.core.journal.entries import AttemptFrames, Stored
from sidecar.core.journal.heads import TurnHead
from sidecar.core.journal.markers import FactsRemoved, TextsErased
from sidecar.operations.record.rows_in_memory import RowsInMemory

MIB: Final = 1024 * 1024
OF_A_TURN: Final = 1500
OF_A_ROW: Final = 700
"""Bytes that a turn takes besides its facts and frames (`OF_A_TURN`), and that each fact or frame takes besides its
contents (`OF_A_ROW`). Both were measured."""


class StoredTurn(Struct):
    """Everything that is stored of one turn.

    Attributes:
        day: the day on which the turn began.
        facts: its facts, in order.
        numbers: the number of each fact in the journal.
        frames: the messages of the runner, by attempt.
        came_with: by attempt, the number of the newest fact in the append that stored the frames.
        weight: the approximate size in bytes.
    """

    day: date
    index: TurnIndex
    head: TurnHead
    facts: list[Stored] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    frames: dict[AttemptId, AttemptFrames] = field(default_factory=dict)
    came_with: dict[AttemptId, int] = field(default_factory=dict)
    weight: int = OF_A_TURN


class JournalContents(Struct):
    """The contents of a journal. Several instances of the sidecar may append to it.

    Attributes:
        kept: maximum number of turns. Ended turns are dropped first, in the order of their ends.
        most_bytes: approximate limit for all turns, in bytes. The newest turn is kept even if it is larger.
        number: the number of the newest fact.
        roots: number of facts and running root, by instance and day.
        last_called: by episode, the turn that ended last of those that called a sub-agent.
        changed: the number of the newest fact of each turn; the turn that changed last is the last entry.
        ended: the ended turns; the turn that ended last is the last entry.
        weight: the approximate size of all turns in bytes.
        rows: the rows of the lists.
    """

    kept: int = 20_000
    most_bytes: int = 128 * MIB
    number: int = 0
    turns: OrderedDict[TurnId, StoredTurn] = field(default_factory=OrderedDict)
    roots: dict[tuple[InstanceId, date], tuple[int, bytes]] = field(default_factory=dict)
    markers: list[FactsRemoved] = field(default_factory=list)
    erasures: list[TextsErased] = field(default_factory=list)
    last_called: OrderedDict[EpisodeId, TurnId] = field(default_factory=OrderedDict)
    changed: dict[TurnId, int] = field(default_factory=dict)
    ended: OrderedDict[TurnId, None] = field(default_factory=OrderedDict)
    weight: int = 0
    rows: RowsInMemory = field(default_factory=RowsInMemory)

    def __post_init__(self) -> None:
        """Create the rows of the lists, in such a way that a row disappears with its turn."""
        self.rows = RowsInMemory(self.turns.__contains__)

    def append(self, append: TurnAppend) -> bool:
        """Store the facts of one turn. Return false, and store nothing, if its version is not `append.before`."""
        turn = self.turns.get(append.turn_id)
        if (0 if turn is None else turn.head.version) != append.before:
            return False
        if turn is None:
            if append.index is None:
                raise ValueError(f"turn {append.turn_id} begins without an index")
            turn = self.turns[append.turn_id] = StoredTurn(append.day, append.index, append.head)
        turn.head, turn.index = append.head, append.index or turn.index
        turn.facts += append.facts
        old_weight = 0 if append.before == 0 else turn.weight  # the total does not contain a new turn yet
        for fact in append.facts:
            turn.weight += OF_A_ROW + len(fact.body) + len(fact.texts or b"")
            self.number += 1
            turn.numbers.append(self.number)
            count, root = self.roots.get((fact.by, turn.day), (0, NOTHING))
            self.roots[fact.by, turn.day] = count + 1, rooted(root, fact.link)
        for frames in append.frames:
            turn.weight += OF_A_ROW + len(frames.frames)
            # A repeated append may contain frames that are stored already. The first ones are kept.
            turn.frames.setdefault(frames.attempt_id, frames)
            turn.came_with.setdefault(frames.attempt_id, self.number)
        self.changed.pop(append.turn_id, None)
        # Removed above and inserted again, which moves the turn to the end: `changes_after` relies on this order.
        self.changed[append.turn_id] = self.number
        if append.index is not None and append.index.called:
            self.last_called[append.index.episode_id] = append.turn_id
            self.last_called.move_to_end(append.index.episode_id)
        if append.head.ended:  # a fact may follow the end, e.g. a score; the turn then keeps its place
            self.ended[append.turn_id] = None
        self.weight += turn.weight - old_weight
        while len(self.turns) > self.kept or (self.weight > self.most_bytes and len(self.turns) > 1):
            # Without its facts, an open turn fails. Open turns are therefore dropped last, and never the turn of this
            # append.
            oldest = next(iter(self.ended), append.turn_id)
            if oldest == append.turn_id:
                oldest = next(each for each in self.turns if each != append.turn_id)
            self.forget(oldest)
        return True

    def forget(self, turn_id: TurnId) -> None:
        """Drop a turn."""
        turn = self.turns.pop(turn_id)
        self.ended.pop(turn_id, None)
        self.weight -= turn.weight
        self.rows.lines.pop(turn_id, None)
        self.changed.pop(turn_id, None)
        # Without its turn, the entry would lead readers to facts that are gone.
        if self.last_called.get(turn.index.episode_id) == turn_id:
            del self.last_called[turn.index.episode_id]
