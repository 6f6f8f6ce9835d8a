"""Runs checkpointing and retention beside an open record, and reports their state.

A checkpoint is a signed hash over the record, written to a second place, so that a later change of the record can be
detected. Retention removes old facts, and leaves a signed statement about what it removed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from sidecar.adapters.checkpoints import (
    CheckpointFile,
    Ed25519Signer,
    KeyFileProblem,
    read_or_make_signer,
    read_signer,
)
from sidecar.composition.record.open_record import RecordDependencies
from sidecar.observability import names
from sidecar.observability.metrics import Metrics
from sidecar.operations.record.checkpoint_ports import AuditChain
from sidecar.operations.record.checkpoints import Checkpointing
from sidecar.operations.record.ports import Journal
from sidecar.operations.record.retention import Retention, RetentionRules
from sidecar.operations.rollout.audit.retention import AuditRetention, RolloutArchive
from sidecar.settings import SettingsProblem
from sidecar.settings.checkpoints import RetentionSettings
from sidecar.settings.record import RecordSettings

if TYPE_CHECKING:
    from sidecar.observability.readiness import Readiness

KEY: Final = "record.checkpoints.key_file"
UNSIGNED_LONG: Final = 10.0
"""Seconds without a checkpoint after which an operator is told; writing one takes milliseconds."""
LONGEST_LOOK: Final = 5.0
"""Seconds that the first and the last checkpoint may take."""


class AuditHandle(RolloutArchive, AuditChain, Protocol):
    """The audit log of rollouts: checkpoints sign it, and retention removes its old rows."""


Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


@asynccontextmanager
async def guarded_record(
    configured: RecordSettings,
    journal: Journal,
    rollouts: AuditHandle,
    dependencies: RecordDependencies,
    metrics: Metrics,
    readiness: "Readiness",
) -> AsyncIterator[Sequence[Loop]]:
    """Yield the loops of checkpointing and retention; at the end, sign the last appends.

    Enter it after the journal was opened, so that it is left before the journal closes. A record in memory has no
    checkpoints and no retention.

    Raises:
        SettingsProblem: the key can be neither read nor created.
    """
    clock, recorder = dependencies.clock, dependencies.recorder
    if configured.database == "memory":
        yield ()
        return
    file, key_file = checkpoint_files(configured)
    try:
        # In a thread: the file may be on a network disk, and a new key needs an fsync.
        signer = await asyncio.to_thread(read_or_make_signer, key_file)
    except KeyFileProblem as problem:
        raise SettingsProblem([f"{KEY}: {problem}"]) from None
    from sidecar.composition.keys.key_files import KeyFiles  # noqa: PLC0415  `verify-log` follows no file

    key_files = KeyFiles(KEY, (key_file,), partial(_signer_in, key_file), recorder.anomaly)
    # Checkpointing and retention share the signer, so a rotated key reaches both.
    second_place, rules = CheckpointFile(file, signer, recorder.anomaly), retention_rules(configured.retention)
    checkpointing = Checkpointing(
        journal, journal.instance, second_place, configured.checkpoints.interval, clock, recorder, rollouts
    )
    retention = Retention(journal, rules, signer, second_place, clock, recorder)
    audit_retention = AuditRetention(rollouts, rules, signer, clock, recorder.anomaly)
    _show_in_metrics(metrics, checkpointing, retention, audit_retention)
    readiness.watch(partial(_unsigned, checkpointing))
    # Before the first call, so that the log of this sidecar can be verified from its first fact on.
    await _check_with_timeout(checkpointing)
    try:
        yield [
            ("checkpointing", checkpointing.run),
            ("retention", retention.run),
            ("audit retention", audit_retention.run),
            ("checkpoint key", key_files.handing_to(signer.adopt)),
        ]
    finally:
        # After the loops were cancelled and before the journal closes: the last appends are signed, too.
        await _check_with_timeout(checkpointing)


def _unsigned(checkpointing: Checkpointing) -> Sequence[str]:
    """Return a sentence for operators if no checkpoint could be written for long; otherwise nothing."""
    waiting = checkpointing.waiting_seconds
    # `waiting` is 0 while everything is signed, however long ago the last checkpoint was.
    if waiting < UNSIGNED_LONG:
        return ()
    return (f"the record has not been signed for {waiting:.0f} s; are the record and its second place available?",)


def _signer_in(key_file: Path) -> Ed25519Signer:
    """Read the key again after its file has changed. Raises `SettingsProblem`."""
    # Only read: a key that is missing for a moment must not be replaced by a new one.
    try:
        return read_signer(key_file)
    except KeyFileProblem as problem:
        raise SettingsProblem([f"{KEY}: {problem}"]) from None


async def _check_with_timeout(checkpointing: Checkpointing) -> None:
    """Check once. A place for checkpoints that does not answer delays neither the start nor the end."""
    # A checkpoint that is missing now is written by the next round, or by the next start.
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_LOOK):
            await checkpointing.look()


def checkpoint_files(configured: RecordSettings) -> tuple[Path, Path]:
    """Return the path of the checkpoints, and of the key that signs them."""
    beside = configured.sqlite.path.parent if configured.database == "sqlite" else Path("/var/lib/sidecar")
    folder, files = beside / "checkpoints", configured.checkpoints
    return files.file or folder / "checkpoints.jsonl", files.key_file or folder / "checkpoint.key"


def retention_rules(configured: RetentionSettings) -> RetentionRules:
    """Return the retention periods."""
    return RetentionRules(timedelta(days=configured.audit_days), timedelta(days=configured.frames_days))


def _show_in_metrics(
    metrics: Metrics, checkpointing: Checkpointing, retention: Retention, audit_retention: AuditRetention
) -> None:
    waiting = "How long no checkpoint could be written that should have been."
    metrics.gauge(names.CHECKPOINT_WAITING, waiting, lambda: checkpointing.waiting_seconds)
    metrics.counted_elsewhere(
        names.CHECKPOINTS,
        "Signed checkpoints by what became of them.",
        lambda: {("written",): float(checkpointing.written), ("failed",): float(checkpointing.failures)},
        "result",
    )
    metrics.counted_elsewhere(
        names.RECORD_PURGED,
        "What retention removed.",
        lambda: {
            ("turn",): float(retention.turns),
            ("attempt",): float(retention.attempts),
        },
        "kind",
    )
    removed = "Audit rows of rollouts that retention removed."
    metrics.counted_elsewhere(names.AUDIT_REMOVED, removed, lambda: {(): float(audit_retention.removed)})
