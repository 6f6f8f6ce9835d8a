"""A plugin of every kind that misbehaves as its settings say: `misbehaving`.

Select it for one vertical of a sidecar for tests, and see that this vertical fails closed while the others go on:

    [plugins]
    enabled = ["sidecar-conformance"]

    [policy.verticals.rewards]
    gates = "bad"

    [gates.bad]
    plugin = "misbehaving"
    how = "hang"

Never enable it where users are served.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum, unique
from typing import Any, Final, TypeVar, cast

import msgspec

from sidecar.core.identifiers import Digest
from sidecar.policy.audit import AuditEntry
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.lifecycle import GateAnswer, GateQuestion, PolicyAnswer, StepFacts, Verdict
from sidecar.policy.protocols import EnricherAnswer, EnricherCall, EnricherReply, FlagReport, RunnerEvent, RunRequest
from sidecar.policy.specs import (
    AuditSinkSpec,
    ConnectorSpec,
    EpisodeMemorySpec,
    FlagBackendSpec,
    GateClientSpec,
    LifecyclePolicySpec,
    PluginSpec,
    RunnerConfig,
    RunnerSpec,
)

NAME: Final = "misbehaving"
SECRET: Final = "conformance-secret-7f3a"  # noqa: S105  what a leaking plugin gives away; opens nothing
LARGE_TEXT: Final = "x" * 1_000_000
BLOCKED: Final = 5.0
"""Seconds for which a call blocks its thread, unless the settings say otherwise."""
CLINGS: Final = 0.5
"""Seconds for which a hanging call continues after its cancellation."""


@unique
class Misbehaviour(StrEnum):
    """What every call of the plugin does."""

    BREAK = "break"
    """Raises."""
    HANG = "hang"
    """Does not end, and clings on for a while after it was cancelled."""
    LIE = "lie"
    """Returns something that must not be believed: another type, another digest, another user's data."""
    BLOCK = "block"
    """Blocks its thread for `seconds`, then raises."""
    LARGE = "large"
    """Lies at length: with as much text as no answer may have, or with fifty thousand flags."""
    LEAK = "leak"
    """Leaves a task behind, and raises with a secret in its message."""


class Blocking:
    """Where calls that block their thread wait. A test sees how many do, and lets them go."""

    def __init__(self) -> None:
        self._released = threading.Event()
        self._lock = threading.Lock()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """The number of calls that block their thread now."""
        return self._waiting

    def wait(self, seconds: float) -> None:
        """Block this thread."""
        with self._lock:
            self._waiting += 1
        self._released.wait(seconds)
        with self._lock:
            self._waiting -= 1

    def release(self) -> None:
        """Let every call go, those that come later too."""
        self._released.set()

    def hold(self) -> None:
        """Block calls again that come from now on."""
        self._released.clear()


BLOCKING: Final = Blocking()
"""Of all calls in this process."""

SpecT = TypeVar("SpecT", bound=PluginSpec)
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "how": {"enum": [each.value for each in Misbehaviour], "description": "What every call does."},
        "seconds": {"type": "number", "minimum": 0, "description": f"How long `block` blocks; default: {BLOCKED:g}."},
    },
    "required": ["how"],
    "additionalProperties": False,
}


class Misbehaving:
    """The object of every kind but runners and lifecycle policies: each of its calls misbehaves.

    Args:
        settings: of the instance.
        target: of a runner.
    """

    def __init__(self, settings: Mapping[str, Any], target: str = "") -> None:
        self.how = Misbehaviour(settings["how"])
        self.seconds = float(settings.get("seconds", BLOCKED))
        self.target = target or NAME
        self._padding = LARGE_TEXT if self.how is Misbehaviour.LARGE else ""
        self._left: list[asyncio.Task[None]] = []

    async def fetch(self) -> FlagReport:
        """Of a flag backend. Lies with every flag on, in a form that is none."""
        if self.how is Misbehaviour.LARGE:
            return FlagReport(frozenset(f"no_such_flag_{number}" for number in range(50_000)), "1")
        return cast("FlagReport", await self._act({"on": "everything"}))

    async def changed(self) -> None:
        """Of a flag backend. Never hints: what matters is the fetch."""
        await asyncio.Event().wait()

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Of a gate client. Lies with a pass for another digest."""
        return cast("GateAnswer", await self._act(_pass_for_another(question, self._padding)))

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Of a connector. Lies with the data of another user."""
        body = {
            "principal": f"not-{call.principal}",
            "version": "1.0.0",
            "status": "ok",
            "payload": {"text": self._padding},
        }
        return cast("EnricherReply", await self._act(EnricherAnswer(msgspec.json.encode(body))))

    async def run(self, _request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Of a runner. Lies with an event that is none."""
        yield cast("RunnerEvent", await self._act(f"done, believe me{self._padding}"))

    async def take(self, _entries: Sequence[AuditEntry]) -> None:
        """Of an audit sink. Its lie is to have taken what it has thrown away, which no sidecar can see."""
        await self._act(None)

    async def append(self, *_arguments: Any) -> Any:
        """Of an episode memory, as the four below."""
        return await self._act(f"remembered{self._padding}")

    read = own_turns = size = write_summary = append

    async def close(self) -> None:
        """Hang where everything hangs: a stop does not wait for it."""
        if self.how is Misbehaviour.HANG:
            await _hangs()

    async def _act(self, lie: object) -> object:
        match self.how:
            case Misbehaviour.HANG:
                await _hangs()
            case Misbehaviour.LIE | Misbehaviour.LARGE:
                return lie
            case Misbehaviour.BLOCK:
                BLOCKING.wait(self.seconds)
            case Misbehaviour.LEAK:
                self._left.append(asyncio.get_running_loop().create_task(_never()))
            case Misbehaviour.BREAK:
                pass
        raise _failure(self.how)


class MisbehavingPolicy:
    """A lifecycle policy, which is asked in a thread."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.how = Misbehaviour(settings["how"])
        self.seconds = float(settings.get("seconds", BLOCKED))

    def check(self, _facts: StepFacts) -> PolicyAnswer:
        """Lie with a `yes` that is no answer."""
        if self.how in {Misbehaviour.HANG, Misbehaviour.BLOCK}:
            BLOCKING.wait(self.seconds)
        if self.how in {Misbehaviour.LIE, Misbehaviour.LARGE}:
            return cast("PolicyAnswer", LARGE_TEXT if self.how is Misbehaviour.LARGE else "yes")
        if self.how is Misbehaviour.LEAK:
            threading.Thread(target=BLOCKING.wait, args=(self.seconds,), daemon=True).start()
        raise _failure(self.how)


def _failure(how: Misbehaviour) -> RuntimeError:
    return RuntimeError(f"it gives away {SECRET}" if how is Misbehaviour.LEAK else "broken on purpose")


async def _hangs() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(CLINGS)


async def _never() -> None:
    await asyncio.sleep(timedelta(days=1).total_seconds())


def _pass_for_another(question: GateQuestion, summary: str) -> GateAnswer:
    fields = {name: getattr(question, name) for name in ("gate", "commit", "from_ramp", "to_ramp", "policy_version")}
    expires_at = datetime.now(UTC) + timedelta(days=1)
    return GateAnswer(
        verdict=Verdict.PASS, digest=Digest("sha256:another"), expires_at=expires_at, summary=summary, **fields
    )


def _spec(of: type[SpecT], factory: Callable[..., object] = Misbehaving) -> list[SpecT]:
    made = of(
        name=NAME,
        contract=f"{of.kind}/1",
        summary="Misbehaves as its settings say; for tests only",
        config_schema=SCHEMA,
        factory=factory,  # type: ignore[call-arg]  # every kind of descriptor has one
    )
    return [made]


def _runner(config: RunnerConfig) -> Misbehaving:
    return Misbehaving(config.settings, config.target or "")


@hookimpl
def sidecar_flag_backends() -> Sequence[FlagBackendSpec]:
    """Offer it."""
    return _spec(FlagBackendSpec)


@hookimpl
def sidecar_runners() -> Sequence[RunnerSpec]:
    """Offer it."""
    return _spec(RunnerSpec, _runner)


@hookimpl
def sidecar_connectors() -> Sequence[ConnectorSpec]:
    """Offer it."""
    return _spec(ConnectorSpec)


@hookimpl
def sidecar_episode_memories() -> Sequence[EpisodeMemorySpec]:
    """Offer it."""
    return _spec(EpisodeMemorySpec)


@hookimpl
def sidecar_gate_clients() -> Sequence[GateClientSpec]:
    """Offer it."""
    return _spec(GateClientSpec)


@hookimpl
def sidecar_lifecycle_policies() -> Sequence[LifecyclePolicySpec]:
    """Offer it."""
    return _spec(LifecyclePolicySpec, MisbehavingPolicy)


@hookimpl
def sidecar_audit_sinks() -> Sequence[AuditSinkSpec]:
    """Offer it."""
    return _spec(AuditSinkSpec)
