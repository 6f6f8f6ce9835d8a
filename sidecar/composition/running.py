"""Builds the whole, yields it, and closes everything in reverse order, also when building fails half-way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sidecar.adapters.definitions_directory.git_history import GitHistory
from sidecar.adapters.definitions_directory.source import DefinitionsSource
from sidecar.adapters.runners import ChosenConnectors, ChosenRunners, TargetMap
from sidecar.adapters.system import (
    OwnedTasks,
    SecretFileProblem,
    Supervisor,
    SystemChance,
    SystemClock,
    SystemIds,
    read_or_make_secret,
)
from sidecar.composition.built_ins import BUILT_INS
from sidecar.composition.checkpoints import guarded_record
from sidecar.composition.conversations import open_memory
from sidecar.composition.from_settings import (
    dispatch_rules,
    flag_timing,
    plugin_sections,
    policy_settings,
    report_files,
    signing_keys,
)
from sidecar.composition.listener_plans import listener_plans
from sidecar.composition.pages import pages
from sidecar.composition.record import OpenRecord, Surroundings, opened_record
from sidecar.composition.reporting import (
    DefectReports,
    DefinitionsReports,
    FlagReports,
    LoopReports,
    show_process,
)
from sidecar.composition.telemetry import Telemetry
from sidecar.core.definitions.resolving import nowhere_committed
from sidecar.observability import names
from sidecar.observability.logging import StructuredLog
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.operations.assembly import Operations, Ports, assemble
from sidecar.operations.flag_snapshot import FlagSnapshots
from sidecar.operations.ports import Chance, Clock, Ids, Recorder
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.loading import PluginHost, load_plugins
from sidecar.policy.making import check_sections, checked_settings, make_flag_backend
from sidecar.policy.selection import PolicyMap, resolve_policy
from sidecar.rpc.health import Health
from sidecar.rpc.in_flight import InFlight
from sidecar.rpc.listeners import listening
from sidecar.rpc.ops_http import OpsHttp
from sidecar.rpc.outermost import Surroundings as CallSurroundings
from sidecar.settings import Settings, SettingsProblem

LAST_TASKS_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """What a test puts in the place of the real thing."""

    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    chance: Chance = field(default_factory=SystemChance)
    plugins: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A running sidecar.

    Attributes:
        boot_secret: what callers of the dispatch socket have to send.
        ops_address: as bound.
        set_health: tells every gRPC listener whether new turns are taken.
    """

    settings: Settings
    operations: Operations
    metrics: Metrics
    readiness: Readiness
    in_flight: InFlight
    boot_secret: str = field(repr=False)
    ops_address: str
    set_health: Callable[[bool], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class _Parts:
    """What is built before anything listens."""

    settings: Settings
    replaced: Replaced
    redactor: Redactor
    metrics: Metrics
    readiness: Readiness
    recorder: Recorder
    tasks: OwnedTasks
    defects: DefectReports
    in_flight: InFlight
    telemetry: Telemetry


@asynccontextmanager
async def running_sidecar(
    settings: Settings, redactor: Redactor | None = None, replaced: Replaced | None = None
) -> AsyncIterator[Sidecar]:
    """Build every object, listen, and yield the whole; close all in reverse order.

    Args:
        settings: how the process runs.
        redactor: of the log; told every secret that is read.
        replaced: what a test puts in the place of the real thing.

    Raises:
        SettingsProblem, PluginProblem: it cannot start as configured.
        AddressHeld: another process serves one of the addresses.
        CannotListen: one of them cannot be served.
    """
    async with AsyncExitStack() as opened:
        healths: list[Health] = []

        async def set_health(serving: bool) -> None:
            for health in healths:
                await health.set_serving(serving)

        parts = _parts(settings, redactor or Redactor(), replaced or Replaced(), set_health)
        record = await opened.enter_async_context(_record(parts))  # closed after the last task that may write to it
        opened.push_async_callback(parts.tasks.close, LAST_TASKS_SECONDS)
        ending = await opened.enter_async_context(AsyncExitStack())  # after the listeners have closed
        boot_secret = _boot_secret(parts)
        keys = signing_keys(settings.keys, parts.redactor)
        policy = _policy(parts)
        ports, loops = await _ports(parts, policy, record, opened)
        operations = assemble(dispatch_rules(settings, parts.redactor), keys, ports)
        show_process(parts.metrics, parts.readiness, operations, ports.flags)
        interceptors = parts.telemetry.interceptors(opened)
        for plan in listener_plans(settings, operations, boot_secret):
            serving = listening(plan, _around_calls(parts), settings.server.limits, interceptors)
            healths.append(await opened.enter_async_context(serving))
        ops = OpsHttp(pages(parts.metrics, parts.readiness, parts.redactor), parts.defects.of_page)
        ops_address = await opened.enter_async_context(ops.listening(settings.server.ops_address))
        loops += await parts.telemetry.begin(ending)
        _supervise(parts, [*loops, *((_name_of(run), run) for run in operations.loops)])
        sidecar = Sidecar(
            settings, operations, parts.metrics, parts.readiness, parts.in_flight, boot_secret, ops_address, set_health
        )
        _say_where(sidecar)
        parts.readiness.clear("start")
        yield sidecar


def _parts(
    settings: Settings, redactor: Redactor, replaced: Replaced, set_health: Callable[[bool], Coroutine[Any, Any, None]]
) -> _Parts:
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics, error_emit=settings.telemetry.error_emit)
    defects = DefectReports(recorder)
    tasks = OwnedTasks(defects.of_task)
    readiness = Readiness(lambda ready: _spawned(tasks, set_health(ready)))
    for sections in plugin_sections(settings).values():
        redactor.learn_settings(dict(sections))
    telemetry = Telemetry(settings.telemetry, metrics, redactor)
    return _Parts(settings, replaced, redactor, metrics, readiness, recorder, tasks, defects, InFlight(), telemetry)


def _around_calls(parts: _Parts) -> CallSurroundings:
    return CallSurroundings(
        on_defect=parts.defects.of_call,
        correlation_id=lambda: parts.replaced.ids.new("defect"),
        in_flight=parts.in_flight,
    )


@asynccontextmanager
async def _record(parts: _Parts) -> AsyncIterator[OpenRecord]:
    replaced = parts.replaced
    around = Surroundings(replaced.clock, replaced.ids, parts.tasks, parts.recorder, parts.redactor)
    said = parts.settings.record
    async with (
        opened_record(said, around) as record,
        guarded_record(said, record.database, replaced.clock, parts.recorder, parts.metrics) as loops,
    ):
        parts.readiness.section("record", record.show)
        yield replace(record, loops=(*record.loops, *loops))


def _spawned(tasks: OwnedTasks, work: Coroutine[Any, Any, None]) -> None:
    tasks.spawn(work, "health")


def _boot_secret(parts: _Parts) -> str:
    try:
        secret = read_or_make_secret(parts.settings.server.boot_secret_file)
    except SecretFileProblem as problem:
        raise SettingsProblem([f"server.boot_secret_file: {problem}"]) from None
    parts.redactor.learn([secret])
    return secret


def _policy(parts: _Parts) -> PolicyMap:
    """Load the plugins, and check now what would else fail at the first call."""
    settings = parts.settings
    host: PluginHost = load_plugins(
        (*BUILT_INS, *parts.replaced.plugins), PluginSelection(tuple(settings.plugins.enabled))
    )
    sections = plugin_sections(settings)
    check_sections(host, sections)
    for (kind, name), registered in host.registered.items():
        if name in sections[kind]:
            checked_settings(registered.spec, sections[kind][name])
    return resolve_policy(policy_settings(settings), host)


async def _ports(
    parts: _Parts, policy: PolicyMap, record: OpenRecord, opened: AsyncExitStack
) -> tuple[Ports, list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]]:
    """Make everything that the operations need from outside; also return its loops."""
    settings, replaced = parts.settings, parts.replaced
    definitions = _definitions(parts)
    backends = {spec.name: make_flag_backend(spec, settings.flags.get(spec.name, {})) for spec in policy.flag_backends}
    for backend in backends.values():
        opened.push_async_callback(backend.close)
    flags = FlagSnapshots(backends, policy.flag_routes, replaced.clock, flag_timing(settings), FlagReports().changed)
    targets = TargetMap(settings.targets.slots, settings.targets.verticals)
    runners = ChosenRunners(policy, settings.runners, targets, f"unix:{settings.server.agents_socket}")
    opened.push_async_callback(runners.close)
    connectors = ChosenConnectors(policy, settings.connectors)
    opened.push_async_callback(connectors.close)
    memory = await open_memory(policy, settings, parts.redactor)
    opened.push_async_callback(memory.close)
    await asyncio.gather(definitions.refresh(), flags.refresh_all())
    ports = Ports(
        clock=replaced.clock,
        ids=replaced.ids,
        chance=replaced.chance,
        spawner=parts.tasks,
        store=record.store,
        recorder=parts.recorder,
        tracing=parts.telemetry.tracing,
        definitions=definitions,
        flags=flags,
        runners=runners,
        connectors=connectors,
        memory=memory,
        reports=report_files(settings),
        lease_held=record.lease.held,
        lease_term=record.lease.term,
    )
    return ports, [("definitions", definitions.run), ("flags", flags.run), *record.loops]


def _definitions(parts: _Parts) -> DefinitionsSource:
    said = parts.settings.definitions
    reports = DefinitionsReports(parts.metrics, parts.readiness)
    commits_of = GitHistory(said.path).commits_of if said.git_commits else nowhere_committed
    return DefinitionsSource(said.path, reports.changed, commits_of=commits_of)


def _name_of(run: Callable[[], Coroutine[Any, Any, None]]) -> str:
    """Return the class of a bound method, in small letters, as its name in log, metric and health."""
    return type(getattr(run, "__self__", run)).__name__.lower()


def _supervise(parts: _Parts, loops: Sequence[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]) -> None:
    supervisor = Supervisor(LoopReports(parts.metrics, parts.readiness))
    for name, run in loops:
        parts.tasks.spawn(supervisor.keep(name, run), name)


def _say_where(sidecar: Sidecar) -> None:
    server = sidecar.settings.server
    StructuredLog("sidecar.listeners").info(
        names.LISTENING,
        "the sidecar listens",
        dispatch_socket=str(server.dispatch_socket),
        agents_socket=str(server.agents_socket),
        ops_address=sidecar.ops_address,
        boot_secret_file=str(server.boot_secret_file),
    )
