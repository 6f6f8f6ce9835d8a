"""The findings of a verification of the record, each as one sentence with its place.

`sidecar verify-log` prints them. The record is verified against itself (the links of facts), against its running roots,
and against the signed checkpoints in the second place, a file outside the database.
"""

from datetime import date
from enum import StrEnum, unique

import msgspec

from sidecar.core.identifiers import InstanceId, TurnId


@unique
class FindingKind(StrEnum):
    """The kinds of findings."""

    FACT_ALTERED = "fact_altered"
    """The link of the fact does not fit its contents and its predecessors."""
    FACT_MISSING = "fact_missing"
    """The fact was appended, but is missing in its turn."""
    FACTS_REORDERED = "facts_reordered"
    """Facts of a turn are in a different order than they were appended in."""
    FACT_UNREADABLE = "fact_unreadable"
    """No sidecar up to this version writes such contents."""
    FACT_NOT_IN_ROOT = "fact_not_in_root"
    """No running root covers the fact."""
    TEXTS_REMOVED = "texts_removed"
    """Texts are missing, and no signed marker of an erasure covers the fact."""
    RULE_BROKEN = "rule_broken"
    """The link of the fact is valid, but no sidecar would have accepted the fact."""
    INDEX_ALTERED = "index_altered"
    """The indexed values of a turn do not follow from its facts."""
    ROOT_ALTERED = "root_altered"
    """A running root does not fit its facts."""
    ROOT_CUT = "root_cut"
    """A running root covers more facts than exist."""
    ROOT_CONTRADICTED = "root_contradicted"
    """A signed checkpoint contradicts the record."""
    AUDIT_ALTERED = "audit_altered"
    """The link of a row of the audit of rollouts does not fit the row and its predecessor."""
    AUDIT_MISSING = "audit_missing"
    """A row of the audit of rollouts is missing, and no marker covers it."""
    AUDIT_CONTRADICTED = "audit_contradicted"
    """A signed checkpoint contradicts the audit of rollouts."""
    CHECKPOINT_ALTERED = "checkpoint_altered"
    """A line's signature does not fit its contents."""
    CHECKPOINT_MISSING = "checkpoint_missing"
    """A line was removed."""
    CHECKPOINT_UNREADABLE = "checkpoint_unreadable"
    """A row of the file is no line, and no fragment of an interrupted write either."""
    CHECKPOINT_OTHER_KEY = "checkpoint_other_key"
    """A line is signed with a key that was not given."""
    MARKER_FORGED = "marker_forged"
    """The signature of a marker is invalid, or of a key that was not given."""
    MARKER_MISFIT = "marker_misfit"
    """A marker fits neither the journal nor the second place."""


class Finding(msgspec.Struct, frozen=True):
    """One finding.

    Attributes:
        text: one sentence.
        instance, day: of the running root, checkpoint or marker; empty if the finding is about a turn alone.
        turn_id: empty if the finding is not about a turn.
        sequence: of the fact in its turn, in its running root, or of the line; None if there is none.
    """

    kind: FindingKind
    text: str
    instance: InstanceId = InstanceId("")
    day: date | None = None
    turn_id: TurnId = TurnId("")
    sequence: int | None = None
