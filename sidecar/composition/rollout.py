"""Joins the rollout: where it is kept, what binds read of it, who takes its steps, where its audit goes."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sidecar.adapters.step_checks import ChosenGates, ChosenPolicies, PolicyThreads
from sidecar.adapters.tombstones import TombstonesInMemory, opened_tombstones
from sidecar.adapters.tombstones.file import TombstonesUnusable
from sidecar.composition.flag_writers import flag_writers
from sidecar.composition.record import OpenRecord
from sidecar.core.rollout.bucketing import moved_buckets
from sidecar.core.rollout.view import RolloutView
from sidecar.observability.audit_sinks import LogAuditSink, OtlpAuditSink
from sidecar.observability.metrics import Metrics
from sidecar.observability.outbox import Ship
from sidecar.observability.rollout_recorder import MeasuringRolloutRecorder
from sidecar.operations.assembly import Ports
from sidecar.operations.ports import Definitions
from sidecar.operations.rollout.assembly import RolloutOperations, RolloutPorts, assemble_rollout
from sidecar.operations.rollout.audit_export import AuditExport
from sidecar.operations.rollout.kept_definitions import KeptDefinitions
from sidecar.operations.rollout.ports import Tombstones
from sidecar.operations.turns import Turn
from sidecar.policy.audit import AuditSink
from sidecar.policy.selection import PolicyMap
from sidecar.settings import Settings, SettingsProblem

Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSurroundings:
    """What the rollout needs of the process.

    Attributes:
        ports: of the operations, with the configuration as loaded.
        turns: asked late, when binding is there.
        ship: sends audit events to the collector; None: there is none.
    """

    settings: Settings
    policy: PolicyMap
    record: OpenRecord
    ports: Ports
    turns: Callable[[], Iterable[Turn]]
    metrics: Metrics
    ship: Ship | None = None


@dataclass(frozen=True, slots=True)
class OpenRollout:
    """The rollout of a running sidecar.

    Attributes:
        definitions: the configuration, with the cards of earlier states that rollouts need.
        loops: to be kept running, by name.
    """

    operations: RolloutOperations
    definitions: Definitions
    loops: Sequence[Loop]

    def rollouts(self) -> RolloutView:
        """Return what a bind reads."""
        return self.operations.stops.rollouts()


@asynccontextmanager
async def opened_rollout(around: RolloutSurroundings) -> AsyncIterator[OpenRollout]:
    """Build everything, and see the configuration once; close what was opened.

    Raises:
        SettingsProblem: users would be moved by another bucketing, or the file of kills cannot be used.
    """
    if moved := moved_buckets():
        raise SettingsProblem(list(moved))
    recorder = MeasuringRolloutRecorder(around.metrics, around.ports.recorder.anomaly)
    gates = ChosenGates(around.policy, around.settings.gates, recorder.anomaly)
    policies = ChosenPolicies(around.policy, around.settings.lifecycle, recorder.anomaly)
    try:
        async with _tombstones(around.settings, recorder.anomaly) as tombstones:
            ports = RolloutPorts(
                store=around.record.rollouts,
                tombstones=tombstones,
                clock=around.ports.clock,
                ids=around.ports.ids,
                recorder=recorder,
                definitions=around.ports.definitions,
                flags=around.ports.flags,
                record=around.record.store,
                turns=around.turns,
                gate_for=gates.client_for,
                policies_of=policies.of_vertical,
                writer_of=flag_writers(
                    around.ports.flags.backends,
                    around.policy.flag_routes,
                    around.settings.flags,
                    (around.record.rollouts, around.ports.clock),
                ),
                ask_policy=PolicyThreads().ask,
            )
            yield await _joined(around, ports, recorder)
    finally:
        await gates.close()


async def _joined(around: RolloutSurroundings, ports: RolloutPorts, recorder: MeasuringRolloutRecorder) -> OpenRollout:
    operations = assemble_rollout(ports)
    around.ports.flags.also_tell(operations.stops.edges.observe)
    export = AuditExport(ports.store, _sinks(around), around.record.store.instance, around.ports.clock, recorder)
    await operations.views.look()
    await operations.seeing.look()  # before anything is bound: what is not on record is not served
    await operations.views.look()
    loops = (*operations.loops, export.run)
    named = [(type(getattr(run, "__self__", run)).__name__.lower(), run) for run in loops]
    return OpenRollout(operations, KeptDefinitions(around.ports.definitions, operations.seeing), named)


def _sinks(around: RolloutSurroundings) -> Mapping[str, AuditSink]:
    log: dict[str, AuditSink] = {"log": LogAuditSink()}
    return log if around.ship is None else {**log, "otlp": OtlpAuditSink(around.ship)}


@asynccontextmanager
async def _tombstones(settings: Settings, report: Callable[[str, str], None]) -> AsyncIterator[Tombstones]:
    """Open the file of kills; with the record in memory there is none, and kills go with the process."""
    if settings.record.database == "memory":
        yield TombstonesInMemory()
        return
    try:
        async with opened_tombstones(settings.rollout.kills_file, report) as tombstones:
            yield tombstones
    except TombstonesUnusable as problem:
        raise SettingsProblem([f"rollout.kills_file: {problem}"]) from None
