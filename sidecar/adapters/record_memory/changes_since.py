"""The changes of a journal in memory since lists last read it."""

from typing import Final

from sidecar.adapters.record_memory.contents import JournalContents
from sidecar.core.identifiers import TurnId
from sidecar.core.listing.changes import ChangedTurn, Changes, ReadPosition, Watermarks
from sidecar.operations.record.ports import NotThisJournal

SEQUENCE: Final = "journal"
"""The only sequence: all facts are numbered together."""


def changes_after(kept: JournalContents, after: Watermarks, limit: int) -> Changes:
    """Return the turns whose newest facts come after `after`; the backlog is counted in turns.

    Raises `NotThisJournal`.
    """
    found: list[TurnId] = []
    mark = after.reached.get(SEQUENCE, ReadPosition(0, b""))
    if mark.number > kept.number:
        raise NotThisJournal(f"the journal has {kept.number} facts, but {mark.number} were read before")
    # From the newest change backwards, so that a pass costs as much as there is to read, not as much as there is.
    for turn_id, number in reversed(kept.changed.items()):
        if number == mark.number and kept.turns[turn_id].facts[-1].link != mark.link:
            raise NotThisJournal(f"fact {number} has another link")
        if number <= mark.number:
            break
        found.append(turn_id)
    page = found[-limit:][::-1]
    if not page:
        # Removals are not counted as alterations: in memory, the row of a turn disappears with the turn.
        return Changes((), Watermarks(after.reached, len(kept.erasures)), 0)
    newest, last = kept.changed[page[-1]], kept.turns[page[-1]].facts[-1]
    # All facts of the turn, not only new ones: copying a tuple of references is cheap.
    turns = tuple(ChangedTurn(turn_id, 1, tuple(kept.turns[turn_id].facts)) for turn_id in page)
    reached, left = Watermarks({SEQUENCE: ReadPosition(newest, last.link)}, len(kept.erasures)), len(found) - len(page)
    return Changes(turns, reached, left, last.at if left else None)
