"""Verifies the facts of one turn: their links, the rules, and the turn's index.

Only the first error of a turn is reported, because later facts cannot be judged after it.

Part of `verify-log`. It applies the same rules as the writer, so a fact that a correct writer would have refused is
found.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date
from typing import Final

from sidecar.core.identifiers import TurnId
from sidecar.core.journal.appends import TurnFacts
from sidecar.core.journal.chain import link_of
from sidecar.core.journal.encoding import UnreadableFact, draft_of
from sidecar.core.journal.entries import Draft, Fact, Stored
from sidecar.core.journal.heads import TurnHead, links_of
from sidecar.core.journal.refusals import SENTENCES, JournalCorrupt, kind_of
from sidecar.core.journal.rules import after
from sidecar.core.journal.turn_state import TurnState
from sidecar.core.verifying.findings import Finding, FindingKind

MOST_LOOKED_AT: Final = 64
"""Facts after a misfit among which its correct position is searched."""
NOT_DERIVED: Final = (LookupError, ValueError, TypeError, ArithmeticError, AttributeError)
"""Exceptions of reading facts whose links are valid but that no sidecar writes."""


def turn_findings(turn_id: TurnId, found: TurnFacts) -> Iterator[Finding]:
    """Yield the first problem of the facts of a turn.

    Args:
        turn_id: of the turn.
        found: its facts; with versions and index, if the database has them.
    """
    state, place = TurnState(turn_id), 0
    try:
        for place, stored in enumerate(found.facts, 1):
            # The number first: a gap explains every misfit after it.
            wrong = _number(turn_id, found.versions, place) or _taken(state, stored, found.facts[place:])
            if wrong is not None:
                yield wrong
                return
    except UnreadableFact as why:
        yield _of(FindingKind.FACT_UNREADABLE, turn_id, place, f"cannot be read: {why}")
    except JournalCorrupt as broken:
        text = f"fits its link, and {SENTENCES[broken.reason]}{broken.about and f' ({broken.about})'}"
        yield _of(FindingKind.RULE_BROKEN, turn_id, place, text)
    # A finding instead of an exception: one turn must not end the verification of the whole record.
    except NOT_DERIVED as error:
        yield _of(FindingKind.RULE_BROKEN, turn_id, place, f"fits its link, and says what cannot be: {error}")
    else:
        yield from _of_index(state, found)


def first_day(found: TurnFacts) -> date:
    """Return the day whose running roots cover the facts of a turn."""
    # `date.min` if nothing is known of the turn: no running root has this day, so none covers it.
    return found.day or (found.facts[0].at.astimezone(UTC).date() if found.facts else date.min)


def _number(turn_id: TurnId, versions: Sequence[int], place: int) -> Finding | None:
    """Return the problem if the facts are not numbered from 1 without gaps."""
    if not versions or versions[place - 1] == place:
        return None
    there = versions[place - 1]
    if there < place:
        return _of(FindingKind.FACTS_REORDERED, turn_id, place, f"is numbered {there}")
    # One finding for the whole gap.
    which = f"fact {place}" if there == place + 1 else f"facts {place} to {there - 1}"
    text = f"{which} of turn {turn_id} missing; the next one there is {there}"
    return Finding(FindingKind.FACT_MISSING, text, turn_id=turn_id, sequence=place)


def _taken(state: TurnState, stored: Stored, later: Sequence[Stored]) -> Finding | None:
    """Apply a fact to the turn; return its problem. Raises the errors of the rules and of reading."""
    draft = draft_of(stored)
    # The link before the rules: an altered fact may break any rule, and the alteration is the cause.
    if not _fits(state.head, stored, draft):
        return _misfit(state, stored, draft, later)
    fact = _fact(state.head, stored, draft)
    # The records are derived as well: facts that pass the rules may still contradict each other in their texts.
    state.take(fact, after(state.head, fact))
    return None


def _fact(head: TurnHead, stored: Stored, draft: Draft) -> Fact:
    return Fact(draft, stored, links_of(head, draft.body))


def _fits(head: TurnHead, stored: Stored, draft: Draft) -> bool:
    """Return whether a fact was appended in this state of the turn, judging by its link."""
    # The predecessors are computed from the facts before, not read: a removed or moved fact changes them.
    return link_of(stored, links_of(head, draft.body)) == stored.link


def _misfit(state: TurnState, stored: Stored, draft: Draft, later: Sequence[Stored]) -> Finding:
    place, kind, head = state.head.version + 1, kind_of(draft.body), state.head
    # Only for the text of the finding: "moved" and "altered" need different investigations.
    for behind, other in enumerate(later[:MOST_LOOKED_AT], place + 1):
        # The head as it would be if this fact stood behind the other one. If its link fits there, only its position is
        # wrong.
        head = _gone_on(head, other)
        if _fits(head, stored, draft):
            text = f"({kind}) belongs behind fact {behind}: facts were moved"
            return _of(FindingKind.FACTS_REORDERED, state.turn_id, place, text)
    text = f"({kind}) was altered, or what it follows was: its contents and the facts before it do not give its link"
    return _of(FindingKind.FACT_ALTERED, state.turn_id, place, text)


def _gone_on(head: TurnHead, stored: Stored) -> TurnHead:
    """Return the head after a fact; the same head if the fact cannot follow."""
    try:
        draft = draft_of(stored)
        return after(head, _fact(head, stored, draft)) if _fits(head, stored, draft) else head
    except (UnreadableFact, JournalCorrupt):
        return head


def _of_index(state: TurnState, found: TurnFacts) -> Iterator[Finding]:
    if not found.facts:
        # Facts were removed, and the row of the turn in the index was left behind.
        if found.day is not None:
            text = f"turn {state.turn_id} is listed under {found.day}, and none of its facts is there"
            yield Finding(FindingKind.FACT_MISSING, text, day=found.day, turn_id=state.turn_id)
        return
    what = []
    if found.day is not None and found.day != state.day:
        what.append(f"of {found.day} instead of {state.day}")
    # Lists and expiries are decided by the index, so a changed index can hide a turn or end it early.
    if found.index is not None and found.index != state.index:
        what.append("with another episode, expiry or end")
    if what:
        text = f"turn {state.turn_id} is listed {', '.join(what)}: its facts say otherwise"
        yield Finding(FindingKind.INDEX_ALTERED, text, turn_id=state.turn_id)


def _of(kind: FindingKind, turn_id: TurnId, place: int, text: str) -> Finding:
    return Finding(kind, f"fact {place} of turn {turn_id} {text}", turn_id=turn_id, sequence=place)
