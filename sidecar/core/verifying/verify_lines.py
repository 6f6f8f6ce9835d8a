"""Verifies the lines of the second place, and the signed markers that retention leaves in the record.

The second place is a file outside the database with signed checkpoints. Its lines come first in a verification: only
their valid statements are used to judge the record.
"""

from collections.abc import Iterable, Iterator

from sidecar.core.journal.markers import FactsRemoved
from sidecar.core.signatures import SignatureVerifier, Verification
from sidecar.core.verifying.checkpoint_lines import (
    NO_LINE,
    OF_ROOTS,
    CheckpointClaims,
    CheckpointLine,
    RootKey,
    line_from,
    line_hash,
)
from sidecar.core.verifying.findings import Finding, FindingKind


class LinesVerifier:
    """Verifies the lines of one file, in order, and adds valid ones to the claims.

    An interrupted write leaves a fragment that is no line; the next line then links to the last complete one, and
    nothing is missing. This is not a finding; `torn` counts it.

    Args:
        claims: the statements of the second place; several files add to one object.
        judge: has the public keys.

    Attributes:
        lines: number of complete lines so far, valid or not.
        torn: number of fragments of interrupted writes so far.
    """

    def __init__(self, claims: CheckpointClaims, judge: SignatureVerifier) -> None:
        self._claims = claims
        self._judge = judge
        self._sequence, self._hash = 0, NO_LINE
        self._not_lines: list[int] = []
        self._at = 0
        self.torn = 0
        self.lines = 0

    def findings(self, lines: Iterable[bytes]) -> Iterator[Finding]:
        """Yield the problems of the file.

        Args:
            lines: each with its end, as a file returns them; the last line of a file that is being written may lack it.
        """
        for text in lines:
            self._at += 1
            bare = text.rstrip(b"\n")
            line = line_from(bare)
            if line is None:
                self._not_lines.append(self._at)
            else:
                self.lines += 1
                # The signature of each line is verified alone, so a line counts as a claim even if lines around it are
                # missing.
                yield from self._judged(line)
                yield from self._linked(line)
                # Also after a finding: the next line is compared with this one, so that one altered line is reported
                # once.
                self._sequence, self._hash = line.sequence, line_hash(bare)
            unfinished = not text.endswith(b"\n")
        if self._at and unfinished and self._not_lines[-1:] == [self._at]:
            # The end of a file that is being written, or of an interrupted write: no finding.
            self._not_lines.pop()
            self.torn += 1
        yield from self._unread()

    def _linked(self, line: CheckpointLine) -> Iterator[Finding]:
        follows = line.sequence == self._sequence + 1 and line.previous == self._hash
        if follows:
            # The line links across the fragments, so nothing is missing between the two lines: these are interrupted
            # writes.
            self.torn += len(self._not_lines)
        elif line.sequence > self._sequence + 1:
            which = f"{self._sequence + 1} to {line.sequence - 1}"
            text = f"lines {which} of the checkpoints were removed or made unreadable before line {line.sequence}"
            yield _of_line(FindingKind.CHECKPOINT_MISSING, line, text)
        elif line.sequence == self._sequence + 1:
            text = f"line {line.sequence} of the checkpoints does not link to the line before it, which was replaced"
            yield _of_line(FindingKind.CHECKPOINT_ALTERED, line, text)
        else:
            text = f"line {line.sequence} of the checkpoints comes after line {self._sequence}: lines were moved"
            yield _of_line(FindingKind.CHECKPOINT_ALTERED, line, text)
        # Now the fragments before this line may be lines that were damaged, so they are findings.
        if not follows:
            yield from self._unread()
        self._not_lines.clear()

    def _unread(self) -> Iterator[Finding]:
        for at in self._not_lines:
            yield Finding(
                FindingKind.CHECKPOINT_UNREADABLE, f"row {at} of the checkpoint file is no line of ours", sequence=at
            )

    def _judged(self, line: CheckpointLine) -> Iterator[Finding]:
        match self._judge.judge(line.key_id, line.signed_bytes(), line.signature):
            case Verification.FITS:
                # Only valid lines become claims. A forged line must not make the record look altered.
                if not self._claims.add(line):
                    of = f"the first {line.number} facts of instance {line.instance} in turns of {line.day}"
                    what = of if line.kind in OF_ROOTS else f"what it states ({line.kind} {line.number})"
                    text = (
                        f"line {line.sequence} of the checkpoints has another root than a line before it for {what}: "
                        "the record was altered between the two"
                    )
                    yield _of_line(FindingKind.ROOT_CONTRADICTED, line, text)
            case Verification.DOES_NOT_FIT:
                text = f"line {line.sequence} of the checkpoints was altered: its signature does not fit its contents"
                yield _of_line(FindingKind.CHECKPOINT_ALTERED, line, text)
            case Verification.UNKNOWN_KEY:
                text = (
                    f"line {line.sequence} of the checkpoints is signed with key {line.key_id!r}, which was not given"
                )
                yield _of_line(FindingKind.CHECKPOINT_OTHER_KEY, line, text)


def marker_findings(
    markers: Iterable[FactsRemoved], judge: SignatureVerifier, claims: CheckpointClaims
) -> Iterator[Finding]:
    """Yield the problems of the markers themselves.

    Args:
        markers: in any order.
        judge: has the public keys.
        claims: of the second place.
    """
    for marker in markers:
        of = f"the retention marker of instance {marker.instance} for {marker.partition}"
        judgement = judgement_of(marker, judge)
        if judgement is not Verification.FITS:
            why = "its signature does not fit" if judgement is Verification.DOES_NOT_FIT else "it is by an unknown key"
            yield _of_marker(FindingKind.MARKER_FORGED, marker, f"{of} was forged or altered: {why}")
        # The signature alone is not enough: an owner of the key could remove facts and sign a marker afterwards. The
        # second place received the statement before the removal.
        elif claims.removed.get(_key(marker)) != marker.state:
            yield _of_marker(FindingKind.MARKER_MISFIT, marker, f"{of} is not in the checkpoint files")


def removed_findings(marker: FactsRemoved, claims: CheckpointClaims, there: int) -> Iterator[Finding]:
    """Yield the problems of a marker, and facts that exist although the marker says that they were removed.

    Args:
        marker: with a valid signature.
        claims: of the second place.
        there: number of facts under its running root that were found after the marker.
    """
    of = f"the retention marker of instance {marker.instance} for {marker.partition}"
    signed = max(claims.of(_key(marker)), default=0)
    # A checkpoint covers more facts than the marker admits: the rest was removed without a marker.
    if signed > marker.number:
        text = f"{of} says that {marker.number} facts were removed, a signed checkpoint has {signed}"
        yield _of_marker(FindingKind.MARKER_MISFIT, marker, text)
    if there:
        text = f"{of} says that its facts were removed, and {there} are there"
        yield _of_marker(FindingKind.MARKER_MISFIT, marker, text)


def judgement_of(marker: FactsRemoved, judge: SignatureVerifier) -> Verification:
    """Verify the signature of a marker."""
    return judge.judge(marker.key_id, marker.payload(), marker.signature)


def _key(marker: FactsRemoved) -> RootKey:
    return RootKey(marker.instance, marker.partition)


def _of_line(kind: FindingKind, line: CheckpointLine, text: str) -> Finding:
    return Finding(kind, text, line.instance, line.day, sequence=line.sequence)


def _of_marker(kind: FindingKind, marker: FactsRemoved, text: str) -> Finding:
    return Finding(kind, text, marker.instance, marker.partition, sequence=marker.number)
