"""What is around the sidecars of a run: gates, a policy, audit sinks, the disk of tombstones, and who counts."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from sidecar.adapters.tombstones import TombstonesInFile
from sidecar.adapters.tombstones.lines import TombstoneFileContents, read_lines
from sidecar.core.errors import StoreUnavailable
from sidecar.core.history.compaction import CompactionDue
from sidecar.core.identifiers import EpisodeId, Slot, TurnId
from sidecar.core.rollout.definition_changes import MajorChange, PendingPromotion
from sidecar.core.rollout.events import TransitionEvent
from sidecar.operations.rollout.store.ports import LocalStop, StopKind
from sidecar.policy.audit import AuditEntry
from sidecar.policy.lifecycle import GateAnswer, GateQuestion, GateUnavailable, PolicyAnswer, Step, StepFacts, Verdict
from tests.support.simulation.ports import BEGIN, JumpingClock
from tests.support.simulation.rollout.journal import (
    FAIL,
    NOTHING,
    PASS,
    Counted,
    Exported,
    Gated,
    Journal,
    PolicyAsked,
    SaidLate,
)
from tests.support.simulation.rollout.schedule import Whom
from tests.support.simulation.rollout.store import Weather

GATE_SECONDS: Final = 0.5
"""How long the sidecars of a run wait for a gate."""
LEGAL: Final = "legal"
"""A gate that a policy asks for."""
MOODS: Final = (Verdict.PASS,) * 7 + (Verdict.FAIL,) * 3 + (Verdict.PENDING, Verdict.INCONCLUSIVE)


@dataclass(slots=True)
class GateService:
    """What all gates say; of one definition mostly the same again."""

    clock: JumpingClock
    journal: Journal
    chance: Random
    moods: dict[tuple[str, str], Verdict] = field(default_factory=dict)

    def verdict(self, question: GateQuestion) -> Verdict:
        """Return what a gate thinks of a definition."""
        key = (question.gate, question.digest)
        if key not in self.moods or self.chance.random() < 0.25:
            self.moods[key] = self.chance.choice(MOODS)
        return self.moods[key]


class GatesOverTheNetwork:
    """The gate client of one process."""

    def __init__(self, service: GateService, weather: Weather) -> None:
        """Join the parts."""
        self._service = service
        self._weather = weather

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Answer: rightly, late, about something else, or not at all."""
        service, weather = self._service, self._weather
        answer = _right(question, service.verdict(question), service.clock)
        await weather.reach(Whom.GATES, GateUnavailable("the gate service is away"))
        if weather.chance.random() < 0.3:
            await weather.passes(weather.chance.uniform(0.0, 0.3))
        if weather.happens(weather.faults.gate_wrong):
            answer = await self._wrong(question, answer)
        counts = {Verdict.PASS: PASS, Verdict.FAIL: FAIL}.get(answer.verdict, NOTHING)
        now = service.clock.now()
        if answer.evidence or answer.expires_at <= now:
            counts = NOTHING
        about = (question.gate, str(question.digest), question.from_ramp, question.to_ramp)
        wall = (now - BEGIN).total_seconds()
        service.journal.add(Gated(weather.life, question.question_id, about, counts, wall, question.dry_run))
        if not answer.evidence:
            weather.counted[f"gate: {answer.verdict}"] += 1
        return answer

    async def _wrong(self, question: GateQuestion, answer: GateAnswer) -> GateAnswer:
        """Return what must not count, or nothing; `evidence` marks it for the journal, and is read by nobody else."""
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("another definition", {"digest": "sha256:other"}),
            ("another commit", {"commit": "other"}),
            ("another step", {"to_ramp": question.to_ramp + 1}),
            ("another start", {"from_ramp": question.from_ramp + 1}),
            ("another gate", {"gate": "other"}),
            ("other rules", {"policy_version": "0"}),
            ("expired", {"expires_at": self._service.clock.now() - timedelta(seconds=1)}),
            ("without expiry", {"expires_at": None}),
            ("nonsense", {"verdict": "PASS"}),
            ("late", {}),
            ("raises", {}),
            ("exits", {}),
        ]
        what, fields = self._weather.chance.choice(wrong)
        self._weather.trouble(f"gate: {what}")
        if what == "late":
            await self._weather.passes(3 * GATE_SECONDS)
        if what == "raises":
            raise KeyError("a defect of the client")
        if what == "exits":
            raise SystemExit(1)
        passing = {"verdict": Verdict.PASS, "evidence": {"wrong": what}}
        return msgspec.structs.replace(answer, **(passing | fields))

    async def close(self) -> None:
        """Nothing to give back."""


def _right(question: GateQuestion, verdict: Verdict, clock: JumpingClock) -> GateAnswer:
    return GateAnswer(
        verdict=verdict,
        gate=question.gate,
        digest=question.digest,
        commit=question.commit,
        from_ramp=question.from_ramp,
        to_ramp=question.to_ramp,
        policy_version=question.policy_version,
        expires_at=clock.now() + timedelta(minutes=10),
        summary="as simulated",
    )


class StepPolicy:
    """A lifecycle policy of a vertical: no step larger than `largest`; `legal` passes before a ramp of `legal_from`."""

    def __init__(self, largest: int, legal_from: int, weather: Weather) -> None:
        """Keep the numbers; 0: no such rule."""
        self._largest = largest
        self._legal_from = legal_from
        self._weather = weather

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny, ask for a gate, or be broken."""
        weather = self._weather
        broken = weather.happens(weather.faults.policy_broken)
        ramps = facts.step is Step.SET_RAMP
        large = ramps and bool(self._largest) and facts.to_ramp - facts.from_ramp > self._largest
        weather.journal.add(PolicyAsked(str(facts.digest), facts.actor, facts.to_ramp, denied=broken or large))
        if broken:
            weather.trouble("policy broken")
            raise RuntimeError("a defect of the policy")
        legal = ramps and bool(self._legal_from) and facts.to_ramp >= self._legal_from
        return PolicyAnswer("too large a step" if large else "", (LEGAL,) if legal else ())


@dataclass(slots=True)
class TombstoneDisk:
    """The file of one place, which outlives its processes."""

    content: bytearray = field(default_factory=bytearray)

    def read(self) -> TombstoneFileContents:
        """Return what a new process finds; half a line is cut off."""
        read = read_lines(bytes(self.content))
        del self.content[read.length :]
        return read

    def held(self) -> tuple[LocalStop, ...]:
        """Return the stops that count for who reads the file now: kills for ever, others until they are on record."""
        read = self.read()
        return tuple(stop for stop in read.stops if stop.kind is StopKind.KILL or stop.key not in read.recorded)


class TombstonesOnDisk(TombstonesInFile):
    """The real tombstones over a made-up disk, which writes in two pieces."""

    def __init__(self, disk: TombstoneDisk, weather: Weather) -> None:
        """Begin with what is there."""
        super().__init__(Path("tombstones"), -1, disk.read())
        self._disk = disk
        self._weather = weather

    async def _write(self) -> None:
        while content := self._unwritten:
            await self._weather.reach(Whom.DISK, OSError("the disk is full"))
            half = self._weather.chance.randrange(len(content) + 1)
            self._disk.content += content[:half]
            await asyncio.sleep(0)
            self._disk.content += content[half:]
            self._unwritten = self._unwritten[len(content) :]


class SinkOverTheNetwork:
    """An audit sink as one process sees it."""

    def __init__(self, weather: Weather) -> None:
        """Keep what decides."""
        self._weather = weather

    async def take(self, entries: Sequence[AuditEntry]) -> None:
        """Take entries, refuse, or take them and not say so."""
        weather = self._weather
        await weather.reach(Whom.SINKS, ConnectionError("the collector is away"))
        for entry in entries:
            weather.journal.add(Exported(weather.life, entry.event_id, entry.number))
        if weather.happens(0.1):
            weather.trouble("sink takes and says it did not")
            raise ConnectionError("the answer was lost")

    async def close(self) -> None:
        """Nothing to give back."""


class CountingRecorder:
    """What one process reports."""

    def __init__(self, journal: Journal, life: str, clock: JumpingClock) -> None:
        """Begin with nothing."""
        self._clock = clock
        self._journal = journal
        self._life = life

    def transitioned(self, event: TransitionEvent) -> None:
        """Count a transition."""
        self._journal.add(Counted(self._life, "transitioned", event.event_id))

    def gate_failed(self, definition_id: str, gate: str) -> None:
        """Count a gate's no."""
        self._journal.add(Counted(self._life, "gate_failed", f"{definition_id} {gate}"))

    def known(self, definition_id: str) -> None:
        """Nothing is compared here."""

    def definitions_seen(self, version: str, waiting: Sequence[PendingPromotion], major: Sequence[MajorChange]) -> None:
        """Nothing is compared here."""

    def kill_switch_fired(self, definition_id: str) -> None:
        """Count a kill."""
        self._journal.add(Counted(self._life, "killed", definition_id))

    def rolled_back(self, definition_id: str, seconds: float) -> None:
        """Nothing is compared here."""

    def anomaly(self, kind: str, detail: str) -> None:
        """Keep it."""
        self._journal.anomalies.append(f"{self._life} {kind}: {detail}")
        if kind == "decommission_overdue":
            wall = (self._clock.now() - BEGIN).total_seconds()
            self._journal.add(SaidLate(self._life, detail.partition(":")[0], wall))


class NoEpisodes:
    """Nothing is known of any conversation."""

    async def last_dispatched(self, episode_id: EpisodeId) -> tuple[Slot, ...] | None:
        """Return nothing."""
        return ()

    async def compaction_due(self, episode: object) -> CompactionDue:
        """Return that nothing is."""
        return CompactionDue.NOT_DUE


class NoRecord:
    """Nothing is on record of turns."""

    async def turns(self, query: object) -> tuple[()]:
        """Return none."""
        return ()

    async def open_turns(self, limit: int, before: object = None) -> tuple[()]:
        """Return none."""
        return ()


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """As much of a turn on record as is read here: what it was bound to."""

    turn_id: TurnId
    claims_json: str
    ended: None = None

    @property
    def dispatches(self) -> tuple["OpenTurn", ...]:
        """Its one dispatch."""
        return (self,)

    @property
    def opened(self) -> "OpenTurn":
        """How that began."""
        return self


class RecordOverTheNetwork:
    """What is on record of turns, as one process sees it: those that have called something and are open."""

    def __init__(self, called: dict[str, OpenTurn], weather: Weather) -> None:
        """Join the parts."""
        self._called = called
        self._weather = weather

    async def turns(self, query: object) -> tuple[OpenTurn, ...]:
        """Return the open ones, unless away."""
        await self._weather.reach(Whom.STORE, StoreUnavailable("the record is away"))
        return tuple(self._called.values())

    async def open_turns(self, limit: int, before: TurnId | None = None) -> tuple[TurnId, ...]:
        """Return the open ones, unless away; all of them fit on one page."""
        await self._weather.reach(Whom.STORE, StoreUnavailable("the record is away"))
        return tuple(map(TurnId, self._called))

    async def turn(self, turn_id: TurnId) -> OpenTurn | None:
        """Return one, unless away."""
        await self._weather.reach(Whom.STORE, StoreUnavailable("the record is away"))
        return self._called.get(turn_id)
