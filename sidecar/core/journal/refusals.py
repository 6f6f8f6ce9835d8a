"""The reasons for which a fact is refused: one for each rule, with its sentence.

A writer whose fact is refused has lost a race or has a defect. `verify-log` applies the same rules to what is stored,
and prints the sentence.
"""

from collections.abc import Mapping
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

import msgspec

from sidecar.core.journal.entries import Fact
from sidecar.core.journal.facts import Body


@unique
class Reason(StrEnum):
    """Every reason for which a fact may not be appended to a turn."""

    ON_RECORD = "on_record"
    """The record already has a dispatch, child, outcome or end with this identity, and this fact is a different one."""
    TURN_ENDED = "turn_ended"
    UNKNOWN_DISPATCH = "unknown_dispatch"
    NOT_OWNER = "not_owner"
    NOT_NEXT_EPOCH = "not_next_epoch"
    STEP_TAKEN = "step_taken"
    UNKNOWN_CHILD = "unknown_child"
    CHILD_CLOSED = "child_closed"
    NOT_FOLLOWING = "not_following"
    """Another fact of one of its children was recorded first."""
    OPEN_CHILDREN = "open_children"
    OUTDATED = "outdated"
    """The fact is older than its dispatch's present ownership; or it ends a turn, and newer facts of the turn exist."""
    STEP_RESERVED = "step_reserved"
    CHILD_MISSING = "child_missing"
    ILLEGAL_STATE = "illegal_state"
    UNKNOWN_CALL = "unknown_call"
    CALL_OVER = "call_over"
    """The call has its outcome or was cancelled, so nothing of it may start."""
    ATTEMPTS = "attempts"
    UNBOUND = "unbound"
    SCORES = "scores"


SENTENCES: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.ON_RECORD: "is on record with other contents",
        Reason.TURN_ENDED: "came after the end of its turn",
        Reason.UNKNOWN_DISPATCH: "is of a dispatch that is not on record",
        Reason.NOT_OWNER: "is of a dispatch that belongs to another sidecar",
        Reason.NOT_NEXT_EPOCH: "does not take its dispatch with the next epoch",
        Reason.STEP_TAKEN: "takes a step that another child has",
        Reason.UNKNOWN_CHILD: "is of a child that is not on record",
        Reason.CHILD_CLOSED: "is of a child that is closed",
        Reason.NOT_FOLLOWING: "does not follow the newest fact of a child",
        Reason.OPEN_CHILDREN: "came while a child of the turn is not closed",
        Reason.OUTDATED: "does not follow the newest fact of its dispatch's owner, or of its turn",
        Reason.STEP_RESERVED: "takes a step that another dispatch has reserved",
        Reason.CHILD_MISSING: "names a child that its dispatch does not have",
        Reason.ILLEGAL_STATE: "holds an event that its child cannot have in this state",
        Reason.UNKNOWN_CALL: "is of a call that its dispatch does not have",
        Reason.CALL_OVER: "starts a call that has its outcome or is to be stopped",
        Reason.ATTEMPTS: "does not count the attempts of its child on",
        Reason.UNBOUND: "needs what its turn was bound to, which is not on record",
        Reason.SCORES: "is one score too many of its turn",
    }
)


class FactRejected(msgspec.Struct, frozen=True):
    """A group of facts is refused because one of them may not be appended; nothing of the group is written.

    Attributes:
        about: what the rule is about, e.g. a step or an id; may be empty.
    """

    fact: Fact
    reason: Reason
    about: str = ""

    @property
    def text(self) -> str:
        """One sentence for a log or an error."""
        return f"{kind_of(self.fact.draft.body)} {SENTENCES[self.reason]}{self.about and f' ({self.about})'}"


def kind_of(body: Body) -> str:
    """Return the name of a fact's kind, as in the table of facts."""
    # Derived from the class, so that text, table and class cannot differ: `DispatchOpened` is `dispatch_opened`.
    name = type(body).__name__
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("_")


class JournalCorrupt(Exception):
    """A rule is broken.

    Callers of `rules.after` convert it: to a `FactRejected` for a new fact, to an error or a finding for a stored one.
    """

    def __init__(self, reason: Reason, about: str = "") -> None:
        super().__init__(reason)
        self.reason, self.about = reason, about
