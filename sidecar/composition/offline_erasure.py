"""Erases the content of one user from a SQLite record that no sidecar has open (`sidecar erase --offline`)."""

import asyncio
import os
from pathlib import Path
from typing import Final

from sidecar.adapters.checkpoints import CheckpointFile, KeyFileProblem, read_or_make_signer
from sidecar.adapters.migrations import DatabaseHeld, DatabaseProblem
from sidecar.adapters.record_sqlite import SqliteJournal, SqliteProjection, record_schema
from sidecar.adapters.sqlite import SqliteEngine
from sidecar.adapters.system import SystemClock, SystemIds
from sidecar.cli.subagent.erasing import EraseOptions
from sidecar.composition.plugins.conversations import kept_conversations
from sidecar.composition.record.checkpoints import checkpoint_files
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId, Principal
from sidecar.core.signatures import Signer
from sidecar.observability.logging import logging_to, standard_error
from sidecar.observability.metrics import Metrics
from sidecar.observability.operators import report_erasure
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.operations.record.checkpoint_ports import CheckpointStoreUnavailable
from sidecar.operations.record.erase_user import Conversations, EraseUser, ErasureReport
from sidecar.operations.record.projector import Projector, ProjectorTiming
from sidecar.settings import Settings, SettingsProblem

ERASING: Final = InstanceId("sidecar-erase")
"""The name of the command in the signed checkpoints. It appends no fact, so no list of sidecars has the name."""


def erase_offline(settings: Settings, options: EraseOptions, *, preview: bool) -> ErasureReport:
    """Erase, or count, the recorded content of a user. Holds the lock of the record, so that no sidecar can start.

    Args:
        settings: of the sidecar: record, checkpoints and episode memory.
        options: the user and the reason.
        preview: only count the content; nothing is erased.

    Raises:
        SettingsProblem: the record, the key or the conversations cannot be opened, or a sidecar has them open.
        StoreUnavailable, MemoryUnavailable, RecordConflict: as for the operation.
    """
    configured = settings.record
    if configured.database != "sqlite":
        raise SettingsProblem(
            [
                f"record.database is {configured.database}: --offline erases in SQLite files; leave it out to ask a "
                f"sidecar"
            ]
        )
    try:
        if not configured.sqlite.path.exists():
            raise DatabaseProblem(f"there is no record at {configured.sqlite.path}")
        # To standard error, so that the report on standard output stays readable for programs.
        with logging_to(standard_error(), settings.log.format, settings.log.level, Redactor()):
            return asyncio.run(_erase(settings, options, preview=preview))
    except DatabaseHeld as problem:
        advice = "leave out --offline to have that sidecar erase, or run this again once it has stopped"
        raise SettingsProblem([f"record.sqlite: {problem}", f"next: {advice}"]) from None
    except DatabaseProblem as problem:
        raise SettingsProblem([f"record.sqlite: {problem}"]) from None
    except CheckpointStoreUnavailable:
        raise StoreUnavailable(
            "the marker of the erasure cannot be kept in the second place, so nothing more was erased"
        ) from None


async def _erase(settings: Settings, options: EraseOptions, *, preview: bool) -> ErasureReport:
    path, recorder = settings.record.sqlite.path, MeasuringRecorder(Metrics())

    def report(doing: str, error: str) -> None:
        recorder.anomaly("record_disk", f"could not {doing}: {error}")

    # Opening takes the lock of the file, so no sidecar can start before the erasure is complete.
    engine = await SqliteEngine.open(path, record_schema(), report)
    try:
        file, signer = _signing(settings)
        journal, projection = SqliteJournal(engine, ERASING), SqliteProjection(path, report)
        try:
            async with kept_conversations(settings) as memory:
                conversations: Conversations = memory or _NoConversations()
                # Without pauses between its passes: no other process needs the disk meanwhile.
                projector = Projector(journal, projection, recorder, ProjectorTiming(between=0))
                # Markers (signed statements about what was erased) go to the same second place as those of a sidecar;
                # without them, `verify-log` would report the erased facts as missing.
                place = CheckpointFile(file, signer, recorder.anomaly)
                operation = EraseUser(
                    journal, ERASING, projector, conversations, signer, place, SystemClock(), SystemIds()
                )
                # Before the erasure: the log must name the operator even if the process is killed in between.
                if not preview:
                    report_erasure(f"uid {os.getuid()}, offline", options.reason)
                erased = ErasureReport()
                async for erased in operation(Principal(options.principal), preview=preview):  # noqa: B007  the last one is returned
                    pass
                return erased
        finally:
            # Before the engine: the projection has a connection to the same file, and the lock must be released last.
            await projection.close()
    finally:
        await engine.close()


def _signing(settings: Settings) -> tuple[Path, Signer]:
    """Return the file of checkpoints and the signer.

    A missing key is an error here. A new key would sign a record that earlier checkpoints signed with another one.
    """
    file, key_file = checkpoint_files(settings.record)
    try:
        if not key_file.exists():
            raise KeyFileProblem(f"{key_file} is not there: the marker has to be signed with the key of the record")
        return file, read_or_make_signer(key_file)
    except (KeyFileProblem, OSError) as problem:
        raise SettingsProblem([f"record.checkpoints.key_file: {problem}"]) from None


class _NoConversations:
    """Used if the episode memory keeps its conversations in the process only: this process has none of them."""

    async def erase(self, principal: Principal) -> int:
        """Return 0: there is nothing to remove."""
        return 0
