"""What is outside of a sidecar that a test operates: clock, flags, gates, tombstones, readiness."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from sidecar.core.errors import StoreUnavailable
from sidecar.core.flag_states import BackendStatus, FlagReport, FlagRoutes, FlagSnapshot, flag_snapshot_of
from sidecar.core.identifiers import Digest
from sidecar.operations.rollout.store.ports import LocalStop, StopKind
from sidecar.policy.lifecycle import GateAnswer, GateQuestion, GateUnavailable, Verdict

BEGAN: Final = datetime(2026, 11, 22, 12, tzinfo=UTC)


class SteppedClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        """Begin at noon."""
        self.time = BEGAN

    def now(self) -> datetime:
        """Return wall time."""
        return self.time

    def monotonic(self) -> float:
        """Return seconds."""
        return self.time.timestamp()


class FlagsForTests:
    """One backend, read and written; it was always asked just now."""

    def __init__(self, clock: SteppedClock) -> None:
        """Begin with all off."""
        self._clock = clock
        self.on: dict[str, bool] = {}
        self.shares: dict[str, int] = {}
        self.away = False
        self.read_only = False
        self.refuses = False

    def current(self) -> FlagSnapshot:
        """Return the flags now."""
        names = frozenset(name for name, on in self.on.items() if on)
        now = self._clock.monotonic()
        shares = {name: share for name, share in self.shares.items() if name in names}
        report = FlagReport(names, "1", frozenset(self.on) - names, shares)
        contacts = {} if self.away else {"memory": BackendStatus(report, now)}
        return flag_snapshot_of(FlagRoutes("memory"), contacts, now=now, max_staleness=10.0)

    def ages(self) -> Mapping[str, timedelta | None]:
        """Return how old they are."""
        return {"memory": None if self.away else timedelta(0)}

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Set a flag."""
        if self.refuses:
            raise StoreUnavailable("the flags cannot be written")
        self.on[name] = on

    def edit_for(self, name: str, on: bool) -> str:
        """Say what a person has to do."""
        return f"set {name} to {on}" if self.read_only else ""


class ScriptedGates:
    """Gates that say what a test wants; `pass` unless told otherwise."""

    def __init__(self, clock: SteppedClock) -> None:
        """Begin with nothing asked."""
        self._clock = clock
        self.say: dict[str, Verdict | None] = {}
        self.asked: list[GateQuestion] = []

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Answer, or be away where a test says None."""
        self.asked.append(question)
        verdict = self.say.get(question.gate, Verdict.PASS)
        if verdict is None:
            raise GateUnavailable("it is away")
        return GateAnswer(
            verdict=verdict,
            gate=question.gate,
            digest=question.digest,
            commit=question.commit,
            from_ramp=question.from_ramp,
            to_ramp=question.to_ramp,
            policy_version=question.policy_version,
            expires_at=self._clock.now() + timedelta(hours=1),
            summary="as scripted",
        )

    async def close(self) -> None:
        """Nothing to give back."""


class StopsInMemory:
    """Tombstones that are kept in memory only."""

    def __init__(self) -> None:
        """Begin with none."""
        self._stops: list[LocalStop] = []
        self._recorded: list[LocalStop] = []

    async def add(self, stop: LocalStop) -> None:
        """Let a stop count."""
        self._stops.append(stop)

    def all(self) -> frozenset[Digest]:
        """Return what was killed."""
        return frozenset(stop.digest for stop in self._stops if stop.kind is StopKind.KILL)

    def ramped_down(self) -> frozenset[Digest]:
        """Return what counts as being at 0 %."""
        return frozenset(stop.digest for stop in self.pending() if stop.kind is StopKind.RAMP_DOWN)

    def pending(self) -> Sequence[LocalStop]:
        """Return what is not on record."""
        return [stop for stop in self._stops if stop not in self._recorded]

    def pending_again(self, killed: frozenset[Digest]) -> None:
        """Let kills be pending again."""
        self._recorded = [stop for stop in self._recorded if stop.digest not in killed]

    async def recorded(self, stop: LocalStop) -> None:
        """Note that it is."""
        self._recorded.append(stop)


class ReadinessForTests:
    """Keeps what stands against being ready."""

    def __init__(self) -> None:
        """Begin ready."""
        self.against: dict[str, str] = {}
        self.attention: tuple[str, ...] = ()

    def block(self, what: str, why: str) -> None:
        """Let something stand against it."""
        self.against[what] = why

    def clear(self, what: str) -> None:
        """Take it back."""
        self.against.pop(what, None)
