"""Builds everything that rollouts need: their store, the view that binds read, the steps of operators, and the audit.

The order matters: before the first bind, the configuration is recorded and its rollouts are read into memory.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct

from sidecar.adapters.flags_embedded import EmbeddedFlags
from sidecar.adapters.plugin_threads.threads import PluginThreads
from sidecar.adapters.step_checks import ChosenGates, ChosenPolicies, PolicyThreads
from sidecar.adapters.tombstones import TombstonesInMemory, opened_tombstones
from sidecar.adapters.tombstones.file import TombstonesUnusable
from sidecar.composition.record.open_record import OpenRecord
from sidecar.composition.rollout.audit_sinks import opened_sinks
from sidecar.composition.rollout.flag_writers import flag_names, flag_writers
from sidecar.core.binding.cohort import Cohort
from sidecar.core.rollout.bucketing import moved_buckets
from sidecar.core.rollout.view import RolloutView
from sidecar.observability import names
from sidecar.observability.metrics import Metrics
from sidecar.observability.redaction import Redactor
from sidecar.observability.rollout_recorder import MeasuringRolloutRecorder, number, show_rollout, standing_gauges
from sidecar.operations.plugin_calls import PluginCalls, hung_reports
from sidecar.operations.process.rollout_assembly import RolloutOperations, RolloutPorts, assemble_rollout
from sidecar.operations.process.turn_assembly import Ports
from sidecar.operations.rollout.audit.export import AuditExport
from sidecar.operations.rollout.steps.content_proofs import Validates
from sidecar.operations.rollout.store.ports import Tombstones
from sidecar.operations.rollout.views.cohort_count import CohortCount
from sidecar.operations.rollout.views.kept_definitions import DefinitionCache
from sidecar.operations.turn.state.open_turns import Turn
from sidecar.policy.audit import AuditSink
from sidecar.policy.selection import PolicyMap
from sidecar.settings import Settings, SettingsProblem

Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


class RolloutDependencies(Struct, frozen=True, kw_only=True):
    """The dependencies of the rollout on the process.

    Attributes:
        ports: the dependencies of the operations; the configuration is loaded already.
        turns: returns the open turns; empty until turns can be bound.
        validate: validates the configuration.
        redactor: removes secrets from audit events that are sent to a collector.
    """

    settings: Settings
    policy: PolicyMap
    record: OpenRecord
    ports: Ports
    turns: Callable[[], Iterable[Turn]]
    validate: Validates
    metrics: Metrics
    redactor: Redactor


class OpenRollout(Struct, frozen=True):
    """The rollout of a running sidecar.

    Attributes:
        definitions: the configuration, and the cards of earlier versions that rollouts need.
        loops: background loops by name; the supervisor keeps them running.
        cohorts: counts the cohort (the group of users with equal surfaces) of each bound turn.
        audit_problems: returns a sentence about each audit sink that accepts no events.
    """

    operations: RolloutOperations
    definitions: DefinitionCache
    loops: Sequence[Loop]
    cohorts: Callable[[Cohort], None]
    audit_problems: Callable[[], Iterable[str]]

    def rollouts(self) -> RolloutView:
        """Return the view that a bind reads."""
        return self.operations.stops.rollouts()


@asynccontextmanager
async def opened_rollout(dependencies: RolloutDependencies) -> AsyncIterator[OpenRollout]:
    """Build all objects and record the configuration once; close the opened objects at the end.

    Raises:
        SettingsProblem: the hash function assigns users to other buckets than earlier releases, which would move them
            between definitions; or the tombstone file (kills and ramp-downs of this sidecar) cannot be used; or the
            library of an audit sink is not installed.
        PluginProblem: an audit sink cannot be created.
    """
    if moved := moved_buckets():  # before anything is opened: such a start would move users to other definitions
        raise SettingsProblem(list(moved))
    recorder = MeasuringRolloutRecorder(dependencies.metrics, dependencies.ports.recorder.anomaly)
    plugin_threads = PluginThreads(dependencies.policy.host, recorder.anomaly)
    gates = ChosenGates(dependencies.policy, dependencies.settings.gates, recorder.anomaly, plugin_threads)
    policies = ChosenPolicies(dependencies.policy, dependencies.settings.lifecycle, recorder.anomaly, plugin_threads)
    try:
        # Tombstones first: kills of an earlier process take effect before anything can be served.
        async with (
            _tombstones(dependencies.settings, recorder.anomaly) as tombstones,
            opened_sinks(dependencies.policy, dependencies.settings, dependencies.redactor, plugin_threads) as sinks,
        ):
            ports = RolloutPorts(
                store=dependencies.record.rollouts,
                tombstones=tombstones,
                clock=dependencies.ports.clock,
                ids=dependencies.ports.ids,
                recorder=recorder,
                definitions=dependencies.ports.definitions,
                flags=dependencies.ports.flags,
                record=dependencies.record.store,
                validate=dependencies.validate,
                turns=dependencies.turns,
                gate_for=gates.client_for,
                policies_of=policies.of_vertical,
                writer_of=flag_writers(
                    dependencies.ports.flags.backends,
                    dependencies.policy.flag_routes,
                    dependencies.settings.flags,
                    dependencies.record.rollouts,
                    dependencies.ports.clock,
                    PluginCalls(dependencies.ports.spawner, hung_reports(dependencies.ports.recorder)),
                ),
                ask_policy=PolicyThreads().ask,
                serve_unflagged_at_once=dependencies.settings.rollout.auto_promote_unflagged,
                turn_lifetime=dependencies.settings.dispatch.turn_lifetime,
                decommission_window=timedelta(days=dependencies.settings.rollout.decommission_days),
            )
            yield await _joined(dependencies, ports, recorder, sinks)
    finally:
        await gates.close()  # created before the files are opened, so closed after them


async def _joined(
    dependencies: RolloutDependencies,
    ports: RolloutPorts,
    recorder: MeasuringRolloutRecorder,
    sinks: Mapping[str, AuditSink],
) -> OpenRollout:
    """Connect the operations, and make the rollouts ready for the first bind."""
    operations = assemble_rollout(ports)
    # Registered before the first look: a kill flag that falls in between would be missed.
    dependencies.ports.flags.add_observer(operations.stops.edges.observe)
    embedded = [name for name, each in dependencies.ports.flags.backends.items() if isinstance(each, EmbeddedFlags)]
    # A view may gate a definition by a flag that was switched in the same step; the flag must be read first.
    operations.views.before_showing(lambda _: dependencies.ports.flags.refresh(embedded))
    # Exports read the recorded events, not the steps themselves, so that a sink that was down receives them later.
    export = AuditExport(ports.store, sinks, dependencies.record.store.instance, dependencies.ports.clock, recorder)
    cohorts = CohortCount(dependencies.ports.clock, recorder, dependencies.settings.rollout.max_cohorts)
    # Reads the rollouts first, because the configuration is compared with them.
    await operations.views.look()
    # Before the first bind: a definition that is not recorded is not served.
    await operations.definition_watch.look()
    # Read the rollouts again: the view must contain what was just recorded.
    await operations.views.look()
    # After the second look: only now do the rollouts name all flags, also those of definitions that left the
    # configuration.
    await _pass_flag_names(dependencies, operations)
    _show(dependencies.metrics, operations, export, cohorts)
    # The name of a loop is the class of its method, as in `running.py`.
    named_loops = [(type(getattr(run, "__self__", run)).__name__.lower(), run) for run in operations.loops]
    cache = DefinitionCache(dependencies.ports.definitions, operations.definition_watch, ports.store, recorder)
    return OpenRollout(operations, cache, [*named_loops, *export.loops], cohorts.bound_in, export.problems)


async def _pass_flag_names(dependencies: RolloutDependencies, operations: RolloutOperations) -> None:
    """Pass the names of the flags to backends that cannot list flags, before the first bind."""
    routes, definitions, views = dependencies.policy.flag_routes, dependencies.ports.definitions, operations.views
    await dependencies.ports.flags.set_flag_names(
        lambda backend: flag_names(backend, routes, definitions.current(), views.current())
    )


def _show(metrics: Metrics, operations: RolloutOperations, export: AuditExport, cohorts: CohortCount) -> None:
    show_rollout(
        metrics,
        (
            *standing_gauges(operations),
            number(names.STOPS_PENDING, "Not on record yet.", lambda: len(operations.tombstones.pending())),
            number(names.AUDIT_WAITING, "Age of the oldest event that waits.", lambda: export.waiting_seconds),
            number(names.COHORTS, "Distinct cohorts in this window.", lambda: cohorts.distinct),
            number(names.COHORTS_BOUND, "Beyond it there is a warning.", lambda: cohorts.bound),
        ),
    )
    metrics.counted_elsewhere(
        names.AUDIT_EXPORTED,
        "Audit events that were handed to a sink.",
        lambda: {(name,): float(count) for name, count in export.handed_on.items()},
        "sink",
    )


@asynccontextmanager
async def _tombstones(settings: Settings, report: Callable[[str, str], None]) -> AsyncIterator[Tombstones]:
    """Open the tombstone file. With the record in memory there is no file, and stops end with the process."""
    # A kill that outlives the rollout it belongs to would kill a definition that has no history.
    if settings.record.database == "memory":
        yield TombstonesInMemory()
        return
    try:
        async with opened_tombstones(tombstone_file(settings), report) as tombstones:
            yield tombstones
    except TombstonesUnusable as problem:
        raise SettingsProblem([f"rollout.tombstone_file: {problem}"]) from None


def tombstone_file(settings: Settings) -> Path:
    """Return the tombstone file of this sidecar."""
    record = settings.record
    beside = record.sqlite.path.parent if record.database == "sqlite" else Path("/var/lib/sidecar")
    return settings.rollout.tombstone_file or beside / "kills.jsonl"
