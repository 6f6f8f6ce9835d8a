"""Starts one sidecar: builds its objects, opens its listeners and begins its background loops.

Everything that was opened is closed in reverse order at the end, also if the start fails half-way.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from sidecar.adapters.system import (
    OwnedTasks,
    SecretFileProblem,
    Supervisor,
    read_or_make_secret,
)
from sidecar.composition.operations import joined_operations
from sidecar.composition.pages import RecentMetrics, pages
from sidecar.composition.parts import Components, Overrides
from sidecar.composition.plugins.from_settings import (
    plugin_sections,
)
from sidecar.composition.record.checkpoints import guarded_record
from sidecar.composition.record.open_record import (
    OpenRecord,
    RecordDependencies,
    append_seconds,
    opened_record,
    show_lists,
)
from sidecar.composition.telemetry.background_reports import (
    DefectReports,
    LimitReports,
    LoopReports,
    rpc_durations,
)
from sidecar.composition.telemetry.collector import Telemetry
from sidecar.observability import event_names
from sidecar.observability.logging import StructuredLog
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.operations.process.turn_assembly import Operations
from sidecar.rpc.handler_guard import HandlerContext, ServingRules
from sidecar.rpc.health import Health
from sidecar.rpc.in_flight import InFlight
from sidecar.rpc.listeners import ListenerPlan, listening
from sidecar.rpc.ops_http import OpsHttp, reserved
from sidecar.settings import Settings, SettingsProblem

LAST_TASKS_SECONDS: Final = 1.0
"""Seconds that cancelled background tasks get at the end. A task that ignores its cancellation is then abandoned."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A running sidecar.

    Attributes:
        boot_secret: callers of the dispatch socket must send it.
        ops_address: the bound address, with the real port.
        set_health: sets the gRPC health of every listener: whether new turns are accepted.
        plugin_modules: distributions of installed plugins by their top-level module.
        drain_lanes: functions that ask the clients of session lanes (long streams that carry many operations) to
            connect to another sidecar.
    """

    settings: Settings
    operations: Operations
    metrics: Metrics
    readiness: Readiness
    in_flight: InFlight
    boot_secret: str = field(repr=False)
    ops_address: str
    set_health: Callable[[bool], Coroutine[Any, Any, None]]
    plugin_modules: Mapping[str, str]
    drain_lanes: Sequence[Callable[[], None]] = ()


@asynccontextmanager
async def running_sidecar(
    settings: Settings, redactor: Redactor | None = None, replaced: Overrides | None = None
) -> AsyncIterator[Sidecar]:
    """Build every object, listen, and yield the running sidecar; close everything in reverse order.

    Args:
        settings: of the process.
        redactor: removes secrets from the log; it learns every secret that is read.
        replaced: replacements that a test passes in.

    Raises:
        SettingsProblem, PluginProblem: the sidecar cannot start with this configuration.
        AddressInUse: another process serves one of the addresses.
        CannotListen: one of the addresses cannot be served.
    """
    async with AsyncExitStack() as opened:
        healths: list[Health] = []  # filled while the listeners open; readiness may change before

        async def set_health(serving: bool) -> None:
            for health in healths:  # read at each change; listeners that open later begin with NOT_SERVING
                await health.set_serving(serving)

        parts = _parts(settings, redactor or Redactor(), replaced or Overrides(), set_health)
        # The order of opening is the reverse order of closing: first the listeners close, then the exporters send the
        # last spans (`exporters`), then tasks end, and last the record closes, because tasks may still write to it.
        ops_socket = opened.enter_context(reserved(settings.server.ops_address))  # a port in use ends the start early
        record = await opened.enter_async_context(_record(parts))
        opened.push_async_callback(parts.tasks.close, LAST_TASKS_SECONDS)
        # A stack of its own, because the exporters are created late and must be closed before the tasks are cancelled.
        exporters = await opened.enter_async_context(AsyncExitStack())
        # Before any object is built that could log it: the redactor must know the secret first.
        boot_secret = _boot_secret(parts)
        interceptors = parts.telemetry.interceptors(opened)  # gRPC takes them only when a server is created
        operations, plans, loops = await joined_operations(parts, record, boot_secret, opened)
        context = _handler_context(parts)
        for plan in plans:
            serving = listening(plan, context, settings.server.limits, interceptors)
            healths.append(await opened.enter_async_context(serving))
        # After the gRPC listeners: a scrape of a process that cannot serve would be misleading.
        metrics = RecentMetrics(parts.metrics, parts.replaced.clock.monotonic, parts.replaced.metrics_age)
        ops = OpsHttp(pages(metrics, parts.readiness, parts.redactor), parts.defects.of_page)
        ops_address = await opened.enter_async_context(ops.listening(settings.server.ops_address, ops_socket))
        loops += await parts.telemetry.begin(exporters)  # after the listeners: the exporters load slowly
        # Loops begin only here: building may fail half-way, and a loop would use unfinished objects.
        _supervise(parts, [*loops, *((_name_of(run), run) for run in operations.loops)])
        sidecar = _sidecar_of(parts, operations, boot_secret, ops_address, set_health, plans)
        _log_addresses(sidecar)
        # Last: a load balancer must not send calls before every listener is open and every loop runs.
        parts.readiness.clear("start")
        yield sidecar


def _sidecar_of(
    parts: Components,
    operations: Operations,
    boot_secret: str,
    ops_address: str,
    set_health: Callable[[bool], Coroutine[Any, Any, None]],
    plans: Sequence[ListenerPlan],
) -> Sidecar:
    drains = [plan.drain for plan in plans if plan.drain is not None]
    common = (parts.settings, operations, parts.metrics, parts.readiness, parts.in_flight)
    return Sidecar(*common, boot_secret, ops_address, set_health, parts.plugin_modules, drains)


def _parts(
    settings: Settings, redactor: Redactor, replaced: Overrides, set_health: Callable[[bool], Coroutine[Any, Any, None]]
) -> Components:
    metrics = Metrics()
    recorder = MeasuringRecorder(metrics, error_emit=settings.telemetry.error_emit)
    defects = DefectReports(recorder)
    tasks = OwnedTasks(defects.of_task)
    # Readiness changes in synchronous code, but setting the gRPC health needs an await; hence a task for each change.
    readiness = Readiness(lambda ready: _spawn(tasks, set_health(ready)))
    readiness.section("dispatch_socket", lambda: str(settings.server.dispatch_socket))  # which sidecar answers
    # Before plugins are loaded: an error of a plugin may quote its settings, which may contain passwords.
    for sections in plugin_sections(settings).values():
        redactor.learn_settings(dict(sections))
    telemetry = Telemetry(settings.telemetry, metrics, redactor)
    return Components(settings, replaced, redactor, metrics, readiness, recorder, tasks, defects, InFlight(), telemetry)


def _handler_context(parts: Components) -> HandlerContext:
    limits = LimitReports(parts.metrics)
    parts.readiness.section("refused_for_limits", limits.counts)
    return HandlerContext(
        on_defect=parts.defects.of_call,
        correlation_id=lambda: parts.replaced.ids.new("defect"),
        in_flight=parts.in_flight,
        on_limit=limits.refused,
        on_ended=rpc_durations(parts.metrics),
        rules=ServingRules(longest_wait=parts.settings.server.limits.max_wait),
    )


@asynccontextmanager
async def _record(parts: Components) -> AsyncIterator[OpenRecord]:
    """Open the record, with its signatures and its retention; add it to readiness and metrics."""
    replaced = parts.replaced
    appends = append_seconds(parts.metrics)
    dependencies = RecordDependencies(
        replaced.clock, replaced.ids, parts.tasks, parts.recorder, parts.redactor, appends
    )
    configured = parts.settings.record
    async with (
        opened_record(configured, dependencies) as record,
        # Inside the record, so that the last checkpoint is written before the journal closes.
        guarded_record(
            configured, record.journal, record.rollouts, dependencies, parts.metrics, parts.readiness
        ) as loops,
    ):
        parts.readiness.section("record", record.show)
        parts.readiness.watch(record.attention)
        if record.lists is not None:
            # A record in memory computes each list from its facts, so it has no rows that could lag behind.
            show_lists(parts.metrics, *record.lists)
        yield replace(record, loops=(*record.loops, *loops))


def _spawn(tasks: OwnedTasks, work: Coroutine[Any, Any, None]) -> None:
    tasks.spawn(work, "health")


def _boot_secret(parts: Components) -> str:
    try:
        secret = read_or_make_secret(parts.settings.server.boot_secret_file)
    except SecretFileProblem as problem:
        raise SettingsProblem([f"server.boot_secret_file: {problem}"]) from None
    # Callers send the secret in metadata, which an error message of gRPC may repeat.
    parts.redactor.learn([secret])
    return secret


def _name_of(run: Callable[[], Coroutine[Any, Any, None]]) -> str:
    """Return the name of a loop in log, metrics and health: the class of the bound method in lower case."""
    return type(getattr(run, "__self__", run)).__name__.lower()


def _supervise(parts: Components, loops: Sequence[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]) -> None:
    supervisor = Supervisor(LoopReports(parts.metrics, parts.readiness))
    for name, run in loops:
        # `keep` restarts the loop whenever it ends; the task itself ends only with the process.
        parts.tasks.spawn(supervisor.keep(name, run), name)


def _log_addresses(sidecar: Sidecar) -> None:
    server = sidecar.settings.server
    groups = {name: str(group.agents_socket) for name, group in server.host_groups.items()}
    # Immediately, because tests and deployments wait for this line.
    StructuredLog("sidecar.listeners").prompt(
        event_names.LISTENING,
        "the sidecar listens",
        dispatch_socket=str(server.dispatch_socket),
        agents_socket=str(server.agents_socket),
        **({"host_groups": groups} if groups else {}),
        ops_address=sidecar.ops_address,
        boot_secret_file=str(server.boot_secret_file),
    )
