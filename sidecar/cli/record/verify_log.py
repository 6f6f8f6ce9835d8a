"""Implements `sidecar verify-log`: verifies the record, prints each finding, and whether the record is intact."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import IntEnum, unique
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import msgspec

from sidecar.cli.record.source import RecordSource
from sidecar.core.errors import StoreUnavailable
from sidecar.core.signatures import SignatureVerifier
from sidecar.core.verifying.findings import Finding
from sidecar.operations.record.checkpoint_ports import AuditChain
from sidecar.operations.record.verify_log import (
    CheckpointSource,
    LogVerification,
    RecordToVerify,
    RecordUnreadable,
    VerificationProgress,
)

PROGRESS_EVERY: Final = 20_000
"""Number of rows between two lines of progress."""
MOST_IN_JSON: Final = 10_000
"""The most findings in the JSON output; all are counted."""


@unique
class Verdict(IntEnum):
    """The result of a verification, as exit code."""

    WHOLE = 0
    FINDINGS = 1
    CANNOT_READ = 2


@dataclass(frozen=True, slots=True)
class Verifying:
    """The operations that the command calls. Both raise `RecordUnreadable`.

    Attributes:
        open_record: opens a record for reading, with the audit of rollouts in it.
        read_keys: reads public keys.
    """

    open_record: Callable[[RecordSource], AbstractAsyncContextManager[tuple[RecordToVerify, AuditChain]]]
    read_keys: Callable[[Sequence[Path]], SignatureVerifier]


def verify_log(source: RecordSource, verifying: Verifying, out: TextIO, err: TextIO, *, as_json: bool) -> int:
    """Verify a record; print findings as they are found, or one JSON object; return the exit code."""
    try:
        return asyncio.run(_verify(source, verifying, _Report(out, err, as_json=as_json)))
    except (RecordUnreadable, StoreUnavailable) as problem:
        err.write(f"the log cannot be verified: {problem}\n")
    except OSError as problem:
        err.write(f"the log cannot be verified: {problem.filename} cannot be read: {problem.strerror}\n")
    return Verdict.CANNOT_READ


async def _verify(source: RecordSource, verifying: Verifying, report: "_Report") -> int:
    signed: CheckpointSource | None = None
    # Checkpoints that are not verified would give an appearance of proof, so one without the other is refused.
    if bool(source.checkpoints) != bool(source.public_keys):
        raise RecordUnreadable("give checkpoints and public keys together, or neither")
    if source.checkpoints:
        for file in source.checkpoints:
            file.open("rb").close()  # a missing file is reported before a verification that may take hours
        files = [partial(lines_of, file) for file in source.checkpoints]
        signed = CheckpointSource(files, verifying.read_keys(source.public_keys))
    # Opened last: a wrong file or key is reported before a database is opened.
    async with verifying.open_record(source) as (record, audit):
        verification = LogVerification(record, signed, report.progress, audit)
        # One by one: a record with millions of facts must not be in memory as a whole.
        async for finding in verification.findings():
            report.add(finding)
    return report.end(verification)


def lines_of(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file, each with its line end. Raises `OSError`."""
    with file.open("rb") as lines:
        yield from lines


class _Report:
    """Prints the findings, the progress and the verdict: as text while it goes, or as one JSON object at the end."""

    def __init__(self, out: TextIO, err: TextIO, *, as_json: bool) -> None:
        self._out = out
        self._err = err
        self._as_json = as_json
        self._findings: list[Finding] = []
        self._count = 0
        self._next_line = PROGRESS_EVERY

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        self._count += 1
        if not self._as_json:
            self._out.write(f"{finding.kind}: {finding.text}\n")
        # Bounded: a damaged record can have a finding for each of its millions of facts.
        elif len(self._findings) < MOST_IN_JSON:
            self._findings.append(finding)

    def progress(self, so_far: VerificationProgress) -> None:
        """Print the progress from time to time."""
        rows = so_far.facts + so_far.turns
        if rows >= self._next_line:
            self._next_line = rows + PROGRESS_EVERY
            # On standard error, because standard output may be piped as JSON.
            self._err.write(f"... {so_far.facts} facts in {so_far.turns} turns\n")

    def end(self, verification: LogVerification) -> int:
        """Print the verdict and return the exit code."""
        counts, notices = verification.looked, list(verification.notices())
        if self._as_json:
            result = {
                "whole": not self._count,
                "findings": self._findings,
                "findings_count": self._count,
                "notices": notices,
                "looked_at": counts,
            }
            self._out.write(msgspec.json.format(msgspec.json.encode(result)).decode() + "\n")
        else:
            self._out.writelines(f"note: {notice}\n" for notice in notices)
            self._out.write(
                f"{'whole' if not self._count else f'{self._count} findings'}: {counts.facts} facts in {counts.turns} "
                f"turns under {counts.roots} running roots, {counts.audit} audit rows, {counts.checkpoints} "
                f"checkpoints, {counts.markers} retention markers, {counts.erasures} erasures\n"
            )
        return Verdict.FINDINGS if self._count else Verdict.WHOLE
