"""The plugin `misbehaving`, which exists for every kind of plugin and misbehaves as its settings say.

Select it for one vertical of a test sidecar, and check that this vertical fails closed while the others continue:

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
    """How every call of the plugin misbehaves."""

    BREAK = "break"
    """Each call raises an exception."""
    HANG = "hang"
    """Each call waits for ever, and continues for `CLINGS` seconds after its cancellation."""
    LIE = "lie"
    """Each call returns a value that the sidecar must reject: another type, another digest, another user's data."""
    BLOCK = "block"
    """Each call blocks its thread for `seconds`, then raises an exception."""
    LARGE = "large"
    """Each call returns a value that is wrong and too large: a text of 1,000,000 characters, or 50,000 flags."""
    LEAK = "leak"
    """Each call leaves a task or thread behind, and raises an exception with a secret in its message."""


class Blocking:
    """Blocks threads until a test releases them, and counts the blocked threads."""

    def __init__(self) -> None:
        self._released = threading.Event()
        self._lock = threading.Lock()
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """The number of calls that block their thread now."""
        return self._waiting

    def wait(self, seconds: float) -> None:
        """Block this thread until `release`, at most for this time."""
        with self._lock:
            self._waiting += 1
        self._released.wait(seconds)
        with self._lock:
            self._waiting -= 1

    def release(self) -> None:
        """Release all blocked calls; later calls do not block."""
        self._released.set()

    def hold(self) -> None:
        """Undo `release`: block later calls again."""
        self._released.clear()


BLOCKING: Final = Blocking()
"""Blocks the calls of all instances of the plugin in this process."""

SpecT = TypeVar("SpecT", bound=PluginSpec)
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "how": {"enum": [member.value for member in Misbehaviour], "description": "What every call does."},
        "seconds": {"type": "number", "minimum": 0, "description": f"How long `block` blocks; default: {BLOCKED:g}."},
    },
    "required": ["how"],
    "additionalProperties": False,
}


class Misbehaving:
    """The object of every kind of plugin except lifecycle policies. Each of its methods misbehaves.

    Args:
        settings: the settings of the instance.
        target: the target of a runner; empty for all other kinds.
    """

    def __init__(self, settings: Mapping[str, Any], target: str = "") -> None:
        self.how = Misbehaviour(settings["how"])
        self.seconds = float(settings.get("seconds", BLOCKED))
        self.target = target or NAME
        self._padding = LARGE_TEXT if self.how is Misbehaviour.LARGE else ""
        self._left: list[asyncio.Task[None]] = []

    async def fetch(self) -> FlagReport:
        """Method of a flag backend. Its wrong answer is no `FlagReport`, but a dict that says that every flag is on."""
        if self.how is Misbehaviour.LARGE:
            return FlagReport(frozenset(f"no_such_flag_{number}" for number in range(50_000)), "1")
        return cast("FlagReport", await self._act({"on": "everything"}))

    async def changed(self) -> None:
        """Method of a flag backend. Never returns, because tests misbehave in `fetch`."""
        await asyncio.Event().wait()

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Method of a gate client. Its wrong answer is a pass for another digest."""
        return cast("GateAnswer", await self._act(_pass_for_another(question, self._padding)))

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Method of a connector. Its wrong answer has the data of another user."""
        body = {
            "principal": f"not-{call.principal}",
            "version": "1.0.0",
            "status": "ok",
            "payload": {"text": self._padding},
        }
        return cast("EnricherReply", await self._act(EnricherAnswer(msgspec.json.encode(body))))

    async def run(self, _request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Method of a runner. Its wrong answer is a text instead of an event."""
        yield cast("RunnerEvent", await self._act(f"done, believe me{self._padding}"))

    async def take(self, _entries: Sequence[AuditEntry]) -> None:
        """Method of an audit sink. It wrongly accepts entries and drops them, which no sidecar can detect."""
        await self._act(None)

    async def append(self, *_arguments: Any) -> Any:
        """Method of an episode memory; the next four methods are the same. The wrong answer is a text."""
        return await self._act(f"remembered{self._padding}")

    read = own_turns = size = write_summary = append

    async def close(self) -> None:
        """Hang if every call hangs: the stop of a sidecar must not wait for a plugin."""
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
    """The lifecycle policy. The sidecar calls it in a thread."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.how = Misbehaviour(settings["how"])
        self.seconds = float(settings.get("seconds", BLOCKED))

    def check(self, _facts: StepFacts) -> PolicyAnswer:
        """Misbehave; the wrong answer is the text `yes` instead of a `PolicyAnswer`."""
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
