"""The `[record.checkpoints]` and `[record.retention]` sections."""

from datetime import timedelta
from pathlib import Path
from typing import Final

from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration

LEAST_AUDIT_DAYS: Final = 90
LONGEST_DAYS: Final = 36_500


class CheckpointSettings(Section):
    """The second place, where it is signed again and again what the record holds; see docs/record-integrity.md."""

    file: Path | None = setting(
        None,
        description="Where signed checkpoints are appended; best on another disk, or shipped away as it grows. Unset: "
        "checkpoints.jsonl in the folder `checkpoints` beside the record's file, or in /var/lib/sidecar/checkpoints.",
    )
    key_file: Path | None = setting(
        None,
        description="The Ed25519 key that signs them, PEM; made with mode 0600 if it is absent, and its public half as "
        ".pub beside it. Keep it out of the record's backups. Unset: checkpoint.key in the same folder as by default.",
    )
    every: Duration = setting(
        timedelta(seconds=10),
        ge=timedelta(seconds=1),
        le=timedelta(hours=1),
        description="How often a checkpoint is written, if any sub-agent's work was closed since the last one.",
    )


def _long_enough(days: int) -> None:
    if days < LEAST_AUDIT_DAYS:
        raise ValueError(f"must be at least {LEAST_AUDIT_DAYS}: for so long every delegated action can be audited")


class RetentionSettings(Section):
    """How long the record keeps what; nothing is removed earlier, and every removal leaves a signed marker."""

    audit_days: int = setting(
        400,
        le=LONGEST_DAYS,
        check=_long_enough,
        description="Days that executions, their events, and the audit of rollouts are kept; at least 90.",
    )
    frames_days: int = setting(
        14, ge=1, le=LONGEST_DAYS, description="Days that what runners sent is kept, for replay."
    )
