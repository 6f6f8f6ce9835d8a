"""Implements `sidecar restored`: states that an older backup replaced the record, so that facts at its end are lost.

The signed statement is written to the second place, which receives the checkpoints. Without it, `verify-log` would
report the lost facts as a manipulation for ever.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sidecar.adapters.checkpoints import CheckpointFile, KeyFileProblem, read_signer
from sidecar.adapters.system import SystemClock
from sidecar.cli.record.restored_command import LossDeclaration
from sidecar.cli.record.verify_log import lines_of
from sidecar.composition.record.checkpoints import checkpoint_files
from sidecar.composition.record.verification import record_source, verifying
from sidecar.core.errors import StoreUnavailable
from sidecar.core.identifiers import InstanceId
from sidecar.core.verifying.checkpoint_lines import RootKey
from sidecar.core.verifying.restored_backups import Gap, StandingRecord, gap_of
from sidecar.operations.record.checkpoint_ports import CheckpointStoreUnavailable
from sidecar.operations.record.verify_log import CheckpointSource, LogVerification, RecordUnreadable
from sidecar.settings import Settings, SettingsProblem

STATING: Final = InstanceId("sidecar-restored")
"""The name of the command in statements about the audit log. It appends no fact to the record."""


async def declare_loss(settings: Settings, reason: str, confirmed: Callable[[Sequence[str]], bool]) -> LossDeclaration:
    """Verify the record; if facts are missing at its end, state that they are lost.

    Args:
        settings: the record and its checkpoints.
        reason: the reason for the restored backup.
        confirmed: receives the lost facts; returns whether to state them.

    Raises:
        SettingsProblem: record, key or checkpoints cannot be used.
    """
    if settings.record.database == "memory":
        raise SettingsProblem(["record.database is memory: there is nothing to restore"])
    file, key_file = checkpoint_files(settings.record)
    try:
        signer = read_signer(key_file)
        # The user of the system, because no role token is needed here: file permissions decide who may run this.
        by = f"uid {os.getuid()}: {reason}"
        gap = await _gap(settings, by)
        # Other damage than a missing end: nothing is stated, because a statement about a part of the damage would make
        # the rest look explained.
        if gap.others:
            return LossDeclaration((), tuple(f"{each.kind}: {each.text}" for each in gap.others))
        # The operator sees what is lost before anything is signed; a statement cannot be withdrawn.
        if not gap.statements or not confirmed(gap.lost):
            return LossDeclaration((), (), nothing_missing=not gap.statements)
        await CheckpointFile(file, signer, lambda _kind, _text: None).append(gap.statements)
    except (KeyFileProblem, RecordUnreadable, StoreUnavailable, CheckpointStoreUnavailable, OSError) as problem:
        raise SettingsProblem([f"record: {problem}"]) from None
    return LossDeclaration(gap.lost, ())


async def _gap(settings: Settings, by: str) -> Gap:
    source, tools = record_source(settings), verifying()
    files = [partial(lines_of, each) for each in source.checkpoints]
    place = CheckpointSource(files, tools.read_keys(source.public_keys))
    async with tools.open_record(source) as (record, audit):
        verification = LogVerification(record, place, lambda _: None, audit)
        findings = [finding async for finding in verification.findings()]
        roots = {RootKey(state.instance, state.day): state for state in await record.roots()}
        standing = StandingRecord(roots, await audit.audit_head())
    return gap_of(findings, standing, STATING, by, SystemClock().now())
