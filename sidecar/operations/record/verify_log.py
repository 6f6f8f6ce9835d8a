"""Verifies a whole record against itself and against the signed checkpoints, one day after the other.

This works while sidecars append to the record. The checkpoint files are read first, then the running roots, then the
facts, so each part holds at least what the previous part names. Anything that seems to be missing is read once more.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import date
from itertools import groupby

from msgspec import Struct, field

from sidecar.core.identifiers import TurnId
from sidecar.core.journal.appends import RootState, TurnFacts
from sidecar.core.journal.markers import FactsRemoved, TextsErased
from sidecar.core.signatures import SignatureVerifier, Verification
from sidecar.core.verifying.checkpoint_lines import CheckpointClaims, RootKey
from sidecar.core.verifying.findings import Finding, FindingKind
from sidecar.core.verifying.restored_backups import restored_notices
from sidecar.core.verifying.turn_roots import FactsUnderRoots
from sidecar.core.verifying.verify_erasures import ErasedTexts, erasure_findings, erasure_judgement
from sidecar.core.verifying.verify_lines import LinesVerifier, judgement_of, marker_findings, removed_findings
from sidecar.core.verifying.verify_roots import RootWalk
from sidecar.core.verifying.verify_turn import first_day, turn_findings
from sidecar.operations.record.checkpoint_ports import AuditChain
from sidecar.operations.record.ports import ArchiveReads
from sidecar.operations.record.verify_audit import AuditVerification


class RecordUnreadable(Exception):
    """The record, or a file needed to verify it, cannot be read; the message names it and the cause."""


RecordToVerify = ArchiveReads
"""The reads of a record that a verification needs."""


class CheckpointSource(Struct, frozen=True):
    """The checkpoints to verify against.

    Attributes:
        files: each function returns an iterator over the lines of one file, with line ends, from the beginning.
        judge: has the public keys.
    """

    files: Sequence[Callable[[], Iterable[bytes]]]
    judge: SignatureVerifier


class VerificationProgress(Struct):
    """How much was verified, and what could not be determined.

    Attributes:
        checkpoints, markers, erasures, roots, facts, turns, audit: how many of each were verified; `audit` counts rows.
        torn: writes to the checkpoint files that a crash has cut off.
        unsigned: facts after the newest checkpoint, by instance and day.
    """

    checkpoints: int = 0
    torn: int = 0
    markers: int = 0
    erasures: int = 0
    roots: int = 0
    facts: int = 0
    turns: int = 0
    audit: int = 0
    unsigned: dict[str, int] = field(default_factory=dict)


class LogVerification:
    """One verification of one record. Memory holds the links of one day, and the ids of all turns.

    Args:
        record: what to verify.
        place: the second place; None: the record is verified only against itself.
        progress: called often with the progress.
        audit: the audit of rollouts; None: it is not verified.
    """

    def __init__(
        self,
        record: RecordToVerify,
        place: CheckpointSource | None,
        progress: Callable[[VerificationProgress], None],
        audit: AuditChain | None = None,
    ) -> None:
        """Begin before the first fact."""
        self._audit = audit
        self._record = record
        self._place = place
        self._progress = progress
        self._claims = CheckpointClaims()
        self._states: dict[RootKey, RootState] = {}
        self._markers: dict[RootKey, FactsRemoved] = {}
        self._erasures: dict[str, TextsErased] = {}
        self._seen: set[TurnId] = set()
        # Verified at the end against newly read roots: walks with more facts than their roots named, and single facts.
        self._ahead: dict[RootKey, RootWalk] = {}
        self._late: dict[RootKey, dict[bytes, tuple[TurnId, int]]] = {}
        self.looked = VerificationProgress()

    async def findings(self) -> AsyncIterator[Finding]:
        """Yield every problem. Iterate once only.

        Raises:
            StoreUnavailable: the record cannot be read.
            OSError: a checkpoint file cannot be read.
        """
        for finding in self._of_files():
            yield finding
        # After the files: a root can only have grown since, so a checkpoint that it does not reach is a finding.
        self._states = await self._roots()
        async for finding in self._of_markers():
            yield finding
        keys = sorted({*self._states, *self._claims.roots, *self._markers}, key=lambda key: (key.day, key.instance))
        for day, of_day in groupby(keys, key=lambda key: key.day):
            async for finding in self._of_day(day, list(of_day)):
                yield finding
        async for finding in self._of_other_turns():
            yield finding
        async for finding in self._of_late_facts():
            yield finding
        if self._audit is not None:
            audit = AuditVerification(self._audit, self._claims, None if self._place is None else self._place.judge)
            async for finding in audit.findings():
                yield finding
            self.looked.audit = audit.rows
            if self._place is not None and audit.unsigned:
                self.looked.unsigned["the audit of rollouts"] = audit.unsigned

    def notices(self) -> Iterator[str]:
        """Yield what cannot be determined, one sentence each; complete after the iteration over the findings."""
        looked = self.looked
        if self._place is None:
            yield (
                "no checkpoints were given: neither a running root that was written anew as a whole, "
                "nor a forged retention marker, nor a cut end can be seen"
            )
        else:
            for where, number in looked.unsigned.items():
                what = f"{number} facts or rows of {where}"
                yield f"{what} come after the last checkpoint: only links between them protect them"
        yield from restored_notices(self._claims, self._erasures)
        if looked.torn:
            yield f"{looked.torn} unfinished writes are in the checkpoint files; nothing is missing around them"

    def _of_files(self) -> Iterator[Finding]:
        if self._place is None:
            return
        for read in self._place.files:
            verifier = LinesVerifier(self._claims, self._place.judge)
            yield from verifier.findings(read())
            self.looked.checkpoints += verifier.lines
            self.looked.torn += verifier.torn
            self._progress(self.looked)

    async def _roots(self) -> dict[RootKey, RootState]:
        return {RootKey(state.instance, state.day): state for state in await self._record.roots()}

    async def _of_markers(self) -> AsyncIterator[Finding]:
        markers = await self._record.markers()
        erasures = await self._record.erasures()
        self._accept_markers(markers)
        self._accept_erasures(erasures)
        self.looked.markers = len(markers)
        self.looked.erasures = len(erasures)
        if self._place is None:
            return
        judge, claims = self._place.judge, self._claims
        found = [*marker_findings(markers, judge, claims), *erasure_findings(erasures, judge, claims)]
        if any(finding.kind is FindingKind.MARKER_MISFIT for finding in found):  # written since the files were read?
            claims = self._claims_of_now(self._place)
            found = [*marker_findings(markers, judge, claims), *erasure_findings(erasures, judge, claims)]
        for finding in found:
            yield finding

    def _claims_of_now(self, place: CheckpointSource) -> CheckpointClaims:
        """Read the checkpoint files again."""
        claims = CheckpointClaims()
        for read in place.files:
            for _ in LinesVerifier(claims, place.judge).findings(read()):
                pass  # the findings of these files were reported in the first pass
        return claims

    def _accept_markers(self, markers: Sequence[FactsRemoved]) -> None:
        """Accept the markers with valid signatures; without keys, all markers."""
        judge = None if self._place is None else self._place.judge
        for marker in markers:
            if judge is None or judgement_of(marker, judge) is Verification.FITS:
                self._markers[RootKey(marker.instance, marker.partition)] = marker

    def _accept_erasures(self, markers: Sequence[TextsErased]) -> None:
        judge = None if self._place is None else self._place.judge
        for marker in markers:
            if judge is None or erasure_judgement(marker, judge) is Verification.FITS:
                self._erasures[marker.marker_id] = marker

    # --- one day

    async def _of_day(self, day: date, keys: Sequence[RootKey]) -> AsyncIterator[Finding]:
        under = FactsUnderRoots(day)
        walks = {key: RootWalk(key, self._states.get(key), self._claims.of(key)) for key in keys}
        removed = [key for key in keys if key in self._markers]
        async for fact in self._record.facts_of_day(day):
            walk = walks.get(RootKey(fact.by, day))
            if walk is not None:  # an instance that started after the roots were read: its facts are verified by turn
                for finding in walk.take(fact.link):
                    yield finding
                under.take(fact)
                self.looked.facts += 1
                self._progress(self.looked)
        for key, walk in walks.items():
            for finding in await self._end_of_root(key, walk, was_removed=key in removed):
                yield finding
        erased = ErasedTexts(day)
        for turn_id in under.turns():
            found = await self._record.facts(turn_id)
            if found.facts or not await self._is_removed(day):  # otherwise retention has removed the turn meanwhile
                erased.take(turn_id, found.facts)
                for finding in self._of_turn(turn_id, found, under):
                    yield finding
        self._late |= under.late  # no root named them: perhaps appended since; verified at the end
        for finding in await self._of_erasures(day, erased, under.turns()):
            yield finding

    async def _end_of_root(self, key: RootKey, walk: RootWalk, *, was_removed: bool) -> Sequence[Finding]:
        missing = list(walk.end())
        if missing and not was_removed:  # retention may have removed them after the markers were read
            self._accept_markers(await self._record.markers())
        if key in self._markers:
            return list(removed_findings(self._markers[key], self._claims, walk.number if was_removed else 0))
        self.looked.roots += 1
        if walk.is_ahead:
            self._ahead[key] = walk
        if walk.unsigned:
            self.looked.unsigned[f"instance {key.instance} in turns of {key.day}"] = walk.unsigned
        return missing

    async def _of_erasures(self, day: date, erased: ErasedTexts, turns: Sequence[TurnId]) -> Sequence[Finding]:
        """Return the findings about missing texts; each suspected turn is read again."""
        found = list(erased.findings(self._erasures_of(day)))
        if found:
            self._accept_erasures(await self._record.erasures())
            erased = ErasedTexts(day)
            for turn_id in turns:
                erased.take(turn_id, (await self._record.facts(turn_id)).facts)
            found = list(erased.findings(self._erasures_of(day)))
        return [] if found and await self._is_removed(day) else found  # removed meanwhile: no texts are left

    def _erasures_of(self, day: date) -> dict[str, TextsErased]:
        return {each.marker_id: each for each in self._erasures.values() if each.partition == day}

    async def _is_removed(self, day: date) -> bool:
        """Return whether retention has removed a day, according to newly read markers."""
        self._accept_markers(await self._record.markers())
        return any(key.day == day for key in self._markers)

    def _of_turn(self, turn_id: TurnId, found: TurnFacts, under: FactsUnderRoots) -> Iterator[Finding]:
        self._seen.add(turn_id)  # `_of_other_turns` skips it
        self.looked.turns += 1
        self._progress(self.looked)
        yield from turn_findings(turn_id, found)
        yield from under.findings(turn_id, found)

    # --- facts that no root named when it was read

    async def _of_other_turns(self) -> AsyncIterator[Finding]:
        """Yield the findings about turns that began after the roots were read, or that no root names."""
        async for turn_id in self._record.turn_ids():
            if turn_id not in self._seen:
                found = await self._record.facts(turn_id)
                day = first_day(found)
                if not found.facts and await self._is_removed(day):
                    continue
                under = FactsUnderRoots(day)
                for finding in self._of_turn(turn_id, found, under):
                    yield finding
                for key, links in under.late.items():
                    self._late.setdefault(key, {}).update(links)

    async def _of_late_facts(self) -> AsyncIterator[Finding]:
        """Read the roots again for facts that no root named, or that came after the facts that it named."""
        if not self._late and not self._ahead:
            return
        states = await self._roots()
        self._accept_markers(await self._record.markers())
        for key, walk in self._ahead.items():
            if key not in self._markers:
                for finding in walk.against(states.get(key)):
                    yield finding
        for key, links in self._late.items():
            if key in states:
                async for fact in self._record.facts_of_day(key.day):
                    if fact.by == key.instance:
                        links.pop(fact.link, None)  # a root covers it by now
            if key not in self._markers:
                for turn_id, place in links.values():
                    what = f"fact {place} of turn {turn_id} is under no running root"
                    text = f"{what}: that was removed, or the fact put in"
                    yield Finding(FindingKind.FACT_NOT_IN_ROOT, text, *key, turn_id, place)
