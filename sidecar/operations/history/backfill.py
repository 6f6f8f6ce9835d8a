"""Imports a legacy export into the episode memory. An interrupted import can be repeated; a preview writes nothing.

A turn is imported whole or not at all, and never after a newer turn of its episode: if an episode has continued under
the sidecar, its order stays intact, and its older turns are reported instead of imported. Source: PC1-D-30.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from sidecar.core.history.backfill import Labels, Numbered, turn_of
from sidecar.core.history.legacy_records import Finding, ImportProblem, LegacyRecord, read_record
from sidecar.core.history.records import EpisodeKey, TurnHistory
from sidecar.core.identifiers import TurnId
from sidecar.operations.history.memory_boundary import BoundedMemory

MOST_FINDINGS: Final = 1000
"""The most findings that the report lists; all of them are counted."""
WHOLE_EPISODE: Final = 1_000_000
"""More turns than any episode has: all of them are read."""
EPISODES_KNOWN: Final = 1000
"""The most episodes that are kept in memory; the least recently used one is dropped first."""


@dataclass(slots=True)
class BackfillReport:
    """The result of an import.

    Attributes:
        lines: number of lines, without empty ones.
        turns: imported turns; with a dry run: turns that would be imported.
        already: turns that the memory had before.
        left_out: turns that were not imported; `findings` say why.
        tagged: imported turns with at least one answer of a sub-agent.
        components: tool messages of the imported turns.
        findings: the first findings.
        troubles: number of findings of each kind.
    """

    dry_run: bool
    lines: int = 0
    turns: int = 0
    already: int = 0
    left_out: int = 0
    tagged: int = 0
    components: int = 0
    findings: list[Finding] = field(default_factory=list)
    troubles: Counter[ImportProblem] = field(default_factory=Counter)

    def found(self, finding: Finding) -> None:
        """Count a finding, and list it if there is room."""
        self.troubles[finding.trouble] += 1
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)


@dataclass(slots=True)
class _Episode:
    """The turns of an episode in the memory, including those that were added by this import."""

    kept: set[TurnId]
    newest: datetime


class BackfillHistory:
    """One import of one export.

    Args:
        labels: the sub-agents that the classifier's labels mean.
        dry_run: import nothing.

    Attributes:
        report: complete once the call has returned.
    """

    def __init__(self, memory: BoundedMemory, labels: Labels, *, dry_run: bool) -> None:
        """Begin with an empty report."""
        self._memory = memory
        self._labels = labels
        self._seen: set[tuple[str, str, str]] = set()
        self._episodes: OrderedDict[EpisodeKey, _Episode] = OrderedDict()
        self.report = BackfillReport(dry_run)

    async def __call__(self, lines: Iterable[bytes]) -> BackfillReport:
        """Read the lines of an export: the lines of a turn are contiguous, and each episode's turns oldest first.

        Raises:
            MemoryUnavailable: the import stopped. Imported turns stay; the same call again continues from there.
        """
        for group, broken in self._grouped(lines):
            number, first = group[0]
            if broken:
                self._leave_out(ImportProblem.TURN_BROKEN, number, first)
            elif first.key in self._seen:
                self._leave_out(ImportProblem.TURN_AGAIN, number, first)
            else:
                await self._keep(group)
            # Also after a failure: further lines of the same turn must not be imported as a turn of their own.
            self._seen.add(first.key)
        return self.report

    def _grouped(self, lines: Iterable[bytes]) -> Iterator[tuple[Sequence[Numbered], bool]]:
        """Iterate over the turns, each with whether an unreadable line may have been one of its messages."""
        group: list[Numbered] = []
        broken = False
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            self.report.lines += 1
            record = read_record(line, number)
            if isinstance(record, Finding):
                self.report.found(record)
                # The line may have been a message of the turn before or after it, so both are left out.
                broken = True
                if group:
                    yield group, True
                    group = []
                continue
            if group and group[-1][1].key != record.key:
                yield group, broken
                group, broken = [], False  # an unreadable line was before the yielded turn, not after it
            group.append((number, record))
        if group:
            yield group, broken

    async def _keep(self, group: Sequence[Numbered]) -> None:
        """Import the turn of these lines, unless the memory has it or has a newer turn of its episode."""
        turn, findings = turn_of(group, self._labels)
        episode = await self._episode(turn.episode)
        # Imported before: this makes an interrupted import repeatable.
        if turn.turn_id in episode.kept:
            self.report.already += 1
            return
        # Memories append. An older turn would be stored behind a newer one, and a model would read the conversation in
        # a wrong order.
        if turn.ended_at < episode.newest:
            self._leave_out(ImportProblem.OUT_OF_ORDER, *group[0])
            return
        # The only line that writes: a dry run takes exactly the same decisions.
        if not self.report.dry_run:
            await self._memory.append(turn)
        episode.kept.add(turn.turn_id)
        episode.newest = turn.ended_at
        self._count(turn)
        for finding in findings:
            self.report.found(finding)

    async def _episode(self, key: EpisodeKey) -> _Episode:
        """Return what the memory has of an episode. Raises `MemoryUnavailable`."""
        if key not in self._episodes:
            turns = (await self._memory.read(key, WHOLE_EPISODE)).turns
            newest = max((turn.ended_at for turn in turns), default=datetime.min.replace(tzinfo=UTC))
            self._episodes[key] = _Episode({turn.turn_id for turn in turns}, newest)
        self._episodes.move_to_end(key)
        # A dry run keeps all of them: the turns that it would have imported are only here.
        if len(self._episodes) > EPISODES_KNOWN and not self.report.dry_run:
            self._episodes.popitem(last=False)  # read again from the memory if it occurs again
        return self._episodes[key]

    def _count(self, turn: TurnHistory) -> None:
        self.report.turns += 1
        self.report.tagged += bool(turn.answers)
        self.report.components += len(turn.tool_messages)

    def _leave_out(self, trouble: ImportProblem, number: int, record: LegacyRecord) -> None:
        self.report.left_out += 1
        self.report.found(Finding(trouble, number, WHY[trouble], record.turn_id))


WHY: Final = {
    ImportProblem.TURN_BROKEN: "left out: an unreadable line beside it may be a part of it",
    ImportProblem.TURN_AGAIN: "left out: lines of this turn came before, and not together with these",
    ImportProblem.OUT_OF_ORDER: "left out: its episode keeps a newer turn already",
}
