"""The changes of a journal in memory since lists last read it."""

from typing import Final

from sidecar.adapters.record_memory.contents import JournalContents
from sidecar.core.identifiers import TurnId
from sidecar.core.listing.changes import ChangedTurn, Changes, ReadPosition, Watermarks
from sidecar.operations.record.ports import NotThisJournal

SEQUENCE: Final = "journal"
"""The only sequence: all facts are numbered together."""


def changes_after(contents: JournalContents, after: Watermarks, limit: int) -> Changes:
    """Return the turns whose newest facts come after `after`; the backlog is counted in turns.

    Raises `NotThisJournal`.
    """
    changed: list[TurnId] = []
    mark = after.reached.get(SEQUENCE, ReadPosition(0, b""))
    if mark.number > contents.number:
        raise NotThisJournal(f"the journal has {contents.number} facts, but {mark.number} were read before")
    # From the newest change backwards, so that a pass costs as much as the changed turns, not as much as all turns.
    for turn_id, number in reversed(contents.changed.items()):
        if number == mark.number and contents.turns[turn_id].facts[-1].link != mark.link:
            raise NotThisJournal(f"fact {number} has another link")
        if number <= mark.number:
            break
        changed.append(turn_id)
    # The oldest changes, in their order: `changed` begins with the newest one.
    page = changed[-limit:][::-1]
    if not page:
        # Removals are not counted as alterations: in memory, the row of a turn disappears with the turn.
        return Changes((), Watermarks(after.reached, len(contents.erasures)), 0)
    newest, last = contents.changed[page[-1]], contents.turns[page[-1]].facts[-1]
    # All facts of the turn, not only new ones: copying a tuple of references is cheap.
    turns = tuple(ChangedTurn(turn_id, 1, tuple(contents.turns[turn_id].facts)) for turn_id in page)
    reached = Watermarks({SEQUENCE: ReadPosition(newest, last.link)}, len(contents.erasures))
    backlog = len(changed) - len(page)
    return Changes(turns, reached, backlog, last.at if backlog else None)
