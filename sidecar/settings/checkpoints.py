"""The `[record.checkpoints]` and `[record.retention]` sections."""

from datetime import timedelta
from pathlib import Path
from typing import Final

from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration

LEAST_AUDIT_DAYS: Final = 90
LONGEST_DAYS: Final = 36_500


class CheckpointSettings(Section):
    """Signed checkpoints of the record, in a place outside the database; see docs/record-integrity.md."""

    file: Path | None = setting(
        None,
        description="File that receives signed checkpoints; preferably on another disk or shipped to another "
        "host. Unset: "
        "checkpoints.jsonl in the folder `checkpoints` beside the record's file, or in /var/lib/sidecar/checkpoints.",
    )
    key_file: Path | None = setting(
        None,
        description="Ed25519 key that signs checkpoints, PEM. If absent, it is created with mode 0600, and its "
        "public half as "
        ".pub beside it. Exclude it from backups of the record. Unset: checkpoint.key in the same folder as by "
        "default.",
    )
    interval: Duration = setting(
        timedelta(seconds=10),
        ge=timedelta(seconds=1),
        le=timedelta(hours=1),
        description="Interval between checkpoints. None is written if nothing was recorded since the last one.",
    )


def _long_enough(days: int) -> None:
    # A check and not `ge`, so that the message gives the reason.
    if days < LEAST_AUDIT_DAYS:
        raise ValueError(f"must be at least {LEAST_AUDIT_DAYS}: every delegated action must be auditable for this time")


class RetentionSettings(Section):
    """Retention of the record. Every removal leaves a signed marker."""

    audit_days: int = setting(
        400,
        le=LONGEST_DAYS,
        check=_long_enough,
        description="Days to keep executions, their events and the audit of rollouts; at least 90.",
    )
    frames_days: int = setting(
        14, ge=1, le=LONGEST_DAYS, description="Days to keep the frames that runners sent, for replay."
    )
