"""The findings of a verification, each as one sentence with its place."""

from datetime import date
from enum import StrEnum, unique

import msgspec

from sidecar.core.identifiers import InstanceId, TurnId


@unique
class FindingKind(StrEnum):
    """Everything that verifying tells apart."""

    FACT_ALTERED = "fact_altered"
    """Its contents, and the facts that it follows, do not give its link."""
    FACT_MISSING = "fact_missing"
    """The fact was appended, but is missing in its turn."""
    FACTS_REORDERED = "facts_reordered"
    """Facts of a turn stand in another order than they were appended in."""
    FACT_UNREADABLE = "fact_unreadable"
    """Its contents are nothing that a sidecar of this version or before writes."""
    FACT_NOT_IN_ROOT = "fact_not_in_root"
    """No running root covers it."""
    TEXTS_REMOVED = "texts_removed"
    """Its texts are gone, and no signed marker of an erasure covers it."""
    RULE_BROKEN = "rule_broken"
    """The link of the fact is valid, but no sidecar would have accepted the fact."""
    INDEX_ALTERED = "index_altered"
    """What a turn is looked for by is not what its facts say."""
    ROOT_ALTERED = "root_altered"
    """A running root is not what its facts give."""
    ROOT_CUT = "root_cut"
    """There are fewer facts than a running root covers."""
    ROOT_CONTRADICTED = "root_contradicted"
    """A signed checkpoint says otherwise."""
    AUDIT_ALTERED = "audit_altered"
    """A row of the audit of rollouts, and the row before, do not give its link."""
    AUDIT_MISSING = "audit_missing"
    """A row of the audit of rollouts is not there, and no marker covers it."""
    AUDIT_CONTRADICTED = "audit_contradicted"
    """A signed checkpoint says otherwise about the audit of rollouts."""
    CHECKPOINT_ALTERED = "checkpoint_altered"
    """A line's signature does not fit its contents."""
    CHECKPOINT_MISSING = "checkpoint_missing"
    """A line that was there is not."""
    CHECKPOINT_UNREADABLE = "checkpoint_unreadable"
    CHECKPOINT_OTHER_KEY = "checkpoint_other_key"
    """A line is signed with a key that was not given."""
    MARKER_FORGED = "marker_forged"
    """The signature of a marker does not fit, or is by a key that was not given."""
    MARKER_MISFIT = "marker_misfit"
    """A marker fits neither the journal nor the second place."""


class Finding(msgspec.Struct, frozen=True):
    """One finding.

    Attributes:
        text: one sentence.
        instance, day: of the running root, checkpoint or marker; empty where it is about a turn alone.
        turn_id: empty where it is about none.
        sequence: of the fact in its turn, in its running root, or of the line; None where there is none.
    """

    kind: FindingKind
    text: str
    instance: InstanceId = InstanceId("")
    day: date | None = None
    turn_id: TurnId = TurnId("")
    sequence: int | None = None
