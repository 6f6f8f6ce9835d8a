"""Connects the operations (what callers can request) to their dependencies, and lists the services of each listener."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from sidecar.adapters.definitions_directory.source import DefinitionsSource
from sidecar.adapters.flags_embedded import kept_in
from sidecar.adapters.plugin_threads.threads import PluginThreads
from sidecar.adapters.runners import ChosenConnectors, ChosenRunners, GatewayAddresses, TargetMap, exchanging_connectors
from sidecar.adapters.system import OffLoop, closed
from sidecar.composition.checked_policy import checked_policy
from sidecar.composition.name_checks import NamesInSettings
from sidecar.composition.parts import Components
from sidecar.composition.plugins.conversations import open_memory
from sidecar.composition.plugins.from_settings import flag_timing, plugin_sections, report_files
from sidecar.composition.plugins.token_keys import followed_rules, followed_signing_keys
from sidecar.composition.record.open_record import OpenRecord
from sidecar.composition.rollout.open_rollout import OpenRollout, RolloutDependencies, opened_rollout
from sidecar.composition.telemetry.background_reports import DefinitionsReports, FlagReports, show_process
from sidecar.composition.telemetry.file_reports import listener_connections
from sidecar.core.definitions.resolve import CommitsOf, no_commit
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.flag_snapshot import FlagSnapshotKeeper
from sidecar.operations.plugin_calls import PluginCalls, hung_reports
from sidecar.operations.process.turn_assembly import Operations, Ports, assemble
from sidecar.policy.factory import make_flag_backend
from sidecar.policy.selection import PolicyMap
from sidecar.rpc.authorisation import CallAdmission, CallerKind
from sidecar.rpc.dispatch_servicer import SERVICE as DISPATCH_SERVICE
from sidecar.rpc.dispatch_servicer import DispatchServicer
from sidecar.rpc.handler_guard import ServingRules
from sidecar.rpc.history_servicer import SERVICE as HISTORY_SERVICE
from sidecar.rpc.history_servicer import HistoryServicer
from sidecar.rpc.listeners import ListenerPlan
from sidecar.rpc.methods import Method
from sidecar.rpc.tool_gateway_servicer import SERVICE as TOOLS_SERVICE
from sidecar.rpc.tool_gateway_servicer import ToolGatewayServicer
from sidecar.settings import Settings, SettingsProblem

if TYPE_CHECKING:
    from sidecar.operations.establish_principal import EstablishPrincipal

REFUSED_STREAMS: Final = 1024
"""Streams that a connection may open in addition to the calls that are served at a time. A call on such a stream is
refused with a reason, except calls that end work. HTTP/2 delays further streams, and the client learns no reason."""


def listener_plans(
    parts: Components, operations: Operations, boot_secret: str, principals: "EstablishPrincipal | None"
) -> Sequence[ListenerPlan]:
    """Return the listener of the consumer-agent and those of runner hosts."""
    server, limits = parts.settings.server, parts.settings.server.limits
    dispatch, drain = _dispatch_methods(parts, operations, principals)
    over_tls = dict(parts.settings.tls.listeners.configured).keys() & {"dispatch", "agents"}
    listeners = 2 + len(server.host_groups) + len(over_tls)
    connections = listener_connections(limits.max_connections, listeners, parts.metrics, parts.readiness)
    for_orchestrators = ListenerPlan(
        server.dispatch_socket,
        CallAdmission(CallerKind.CONSUMER_AGENT, boot_secret),
        (DISPATCH_SERVICE, HISTORY_SERVICE),
        (*dispatch, *HistoryServicer(operations.history).methods()),
        limits.max_dispatch_calls + REFUSED_STREAMS,
        server.reflection,
        drain,
        limits.max_dispatch_calls,
        connections,
    )
    for_hosts = ListenerPlan(
        server.agents_socket,
        CallAdmission(CallerKind.RUNNER_HOST),
        (TOOLS_SERVICE,),
        _tool_gateway(operations, parts.recorder.anomaly).methods(),
        limits.max_agent_streams,
        server.reflection,
        None,
        limits.max_agent_calls,
        connections,
    )
    if not server.host_groups:
        return for_orchestrators, for_hosts
    from sidecar.composition.host_groups import agents_plans  # noqa: PLC0415  only where there are groups

    return for_orchestrators, *agents_plans(server, for_hosts)


def _tool_gateway(operations: Operations, anomaly: Callable[[str, str], None]) -> ToolGatewayServicer:
    read_own_turns = operations.history.read_own_turns
    return ToolGatewayServicer(operations.call_tool, read_own_turns, operations.delegate, operations.grants, anomaly)


def _dispatch_methods(
    parts: Components, operations: Operations, principals: "EstablishPrincipal | None"
) -> tuple[Sequence[Method], Callable[[], None] | None]:
    """Return the methods of the dispatch service, and the function that drains its lanes, if lanes are enabled."""
    write_timeout = ServingRules().write_timeout
    if not parts.settings.session.enabled:
        return DispatchServicer(operations, write_timeout, principals=principals).without_lanes(), None
    from sidecar.composition.lanes import opened_lanes, session_rules  # noqa: PLC0415  only where lanes are offered
    from sidecar.rpc.session.rules import contract  # noqa: PLC0415  only where lanes are offered

    rules = session_rules(parts.settings)
    methods = DispatchServicer(operations, write_timeout, contract(rules), principals).methods()
    lanes = opened_lanes(parts, rules, methods)
    return (*methods, *lanes.methods()), lanes.drain


Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


async def joined_operations(
    parts: Components, record: OpenRecord, boot_secret: str, opened: AsyncExitStack
) -> tuple[Operations, Sequence[ListenerPlan], list[Loop]]:
    """Connect all objects that handle calls; also return the listeners and the background loops."""
    settings = parts.settings
    keys, key_loops = followed_signing_keys(settings.keys, parts.redactor, parts.recorder.anomaly)
    policy = checked_policy(settings, parts.replaced.plugins)  # first: it refuses most wrong settings
    parts.plugin_modules.update(policy.host.modules())
    definitions = _definitions(parts)
    ports, loops = await _ports(parts, policy, record, definitions, opened)
    joined: list[Operations] = []  # filled below: binding needs the rollouts, and they need the turns of binding
    dependencies = RolloutDependencies(
        settings=settings,
        policy=policy,
        record=record,
        ports=ports,
        turns=lambda: joined[0].turns if joined else (),
        validate=definitions.validated,
        metrics=parts.metrics,
        redactor=parts.redactor,
    )
    rollout = await opened.enter_async_context(opened_rollout(dependencies))
    definitions.add_observer(lambda change: rollout.operations.definition_watch.look_soon())
    naming = NamesInSettings(settings)
    naming.check_at_start(definitions.current(), rollout.rollouts())  # needs the rollouts: a name may exist only there
    definitions.add_observer(naming.changed)  # only now: the start reports its own problems
    ports = replace(
        ports,
        rollouts=rollout.rollouts,
        definitions=rollout.definitions,
        fetch_card=rollout.definitions.fetch,
        cohorts=rollout.cohorts,
    )
    loops += rollout.loops
    rules, rule_loops = followed_rules(settings, parts.redactor, parts.recorder.anomaly)
    operations = assemble(rules, keys, ports)
    joined.append(operations)
    show_process(parts.metrics, parts.readiness, operations, ports.flags)
    parts.readiness.watch(rollout.audit_problems)
    plans, operator_loops = (
        _for_operators(parts, operations, rollout, record, policy) if settings.operators.configured else ((), ())
    )
    principals, token_loops = _principals(parts, policy)
    plans = [*listener_plans(parts, operations, boot_secret, principals), *plans]
    secured, tls_loops = _over_tls(parts, plans, policy)
    return operations, [*plans, *secured], [*loops, *operator_loops, *tls_loops, *token_loops, *key_loops, *rule_loops]


def _over_tls(
    parts: Components, plans: Sequence[ListenerPlan], policy: PolicyMap
) -> tuple[Sequence[ListenerPlan], Sequence[Loop]]:
    """Return the listeners with mutual TLS, and the loop that watches certificates."""
    certs = any("ca_file" in each or "client_certificate_file" in each for each in _sections_of_plugins(parts.settings))
    if not certs and not any(True for _ in parts.settings.tls.listeners.configured):
        return (), ()
    from sidecar.composition.tls import outgoing_files, secure_plans  # noqa: PLC0415  only where there are certificates

    return secure_plans(parts, plans, outgoing_files(parts.settings, policy.host))


def _sections_of_plugins(settings: Settings) -> Iterator[Mapping[str, Any]]:
    for sections in plugin_sections(settings).values():
        yield from sections.values()


def _principals(parts: Components, policy: PolicyMap) -> "tuple[EstablishPrincipal | None, Sequence[Loop]]":
    """Return the verifier of user tokens, if the settings require such tokens, and its background loop."""
    exchanging = exchanging_connectors(policy, parts.settings.connectors)
    if parts.settings.principals is None:
        if exchanging:
            raise SettingsProblem([f"connectors.{name}.token_endpoint: needs [principals]" for name in exchanging])
        return None, ()
    from sidecar.composition.operators.issuer_keys import verified_principals  # noqa: PLC0415  only with tokens

    principals, loop = verified_principals(parts.settings.principals, parts.replaced.clock, parts.recorder.anomaly)
    principals.tokens_needed = bool(exchanging)  # otherwise no token is kept in memory
    return principals, (loop,)


def _for_operators(
    parts: Components, operations: Operations, rollout: OpenRollout, record: OpenRecord, policy: PolicyMap
) -> tuple[Sequence[ListenerPlan], Sequence[Loop]]:
    """Return the operators' listener and its background loops."""
    from sidecar.composition.operators.operator_access import OperatorAccess  # noqa: PLC0415  only where there are any

    return OperatorAccess(
        settings=parts.settings,
        operations=operations,
        rollout=rollout,
        record=record,
        policy=policy,
        readiness=parts.readiness,
        in_flight=parts.in_flight,
        metrics=parts.metrics,
        clock=parts.replaced.clock,
        anomaly=parts.recorder.anomaly,
    ).plans()


async def _ports(
    parts: Components, policy: PolicyMap, record: OpenRecord, definitions: DefinitionsSource, opened: AsyncExitStack
) -> tuple[Ports, list[Loop]]:
    """Create all dependencies of the operations; also return their background loops."""
    settings, replaced, anomaly = parts.settings, parts.replaced, parts.recorder.anomaly
    specs = [kept_in(record.rollouts, spec) for spec in policy.flag_backends]
    plugin_threads = PluginThreads(policy.host, anomaly)
    makers = {each.name: partial(make_flag_backend, each, settings.flags.get(each.name, {})) for each in specs}
    backends = {each.name: plugin_threads.made(each, makers[each.name]) for each in specs}
    for backend in backends.values():
        opened.push_async_callback(closed, backend.close)  # before any contact: its thread exists already
    calls = PluginCalls(parts.tasks, hung_reports(parts.recorder))
    flags = FlagSnapshotKeeper(
        backends, policy.flag_routes, replaced.clock, flag_timing(settings), FlagReports().changed, calls
    )
    targets = TargetMap(settings.targets.slots, settings.targets.verticals)
    runners = ChosenRunners(policy, settings.runners, targets, _gateways(settings), plugin_threads)
    opened.push_async_callback(runners.close, closed)
    connectors = ChosenConnectors(policy, settings.connectors, plugin_threads)
    opened.push_async_callback(connectors.close, closed)
    memory = await open_memory(policy, settings, parts.redactor, anomaly)
    opened.push_async_callback(closed, memory.close)
    off_loop = OffLoop()  # closed before the objects that its computations use
    opened.callback(off_loop.close)
    await asyncio.gather(definitions.refresh(), flags.refresh_all())  # the start waits for a first answer of both
    loops = [("definitions", definitions.run), ("flags", flags.run), *record.loops]
    loops.append(("connectors", _prepared(connectors, definitions)))
    ports = Ports(
        clock=replaced.clock,
        ids=replaced.ids,
        chance=replaced.chance,
        spawner=parts.tasks,
        off_loop=off_loop,
        store=record.store,
        recorder=parts.recorder,
        tracing=parts.telemetry.tracing,
        definitions=definitions,
        flags=flags,
        runners=runners,
        connectors=connectors,
        memory=memory,
        memory_is_own=policy.memory_is_own,
        rollouts=RolloutView,  # no user is served before the rollouts are open
        reports=report_files(settings),
        lease_held=record.lease.held,
        lease_term=record.lease.term,
    )
    return ports, loops


def _gateways(settings: Settings) -> GatewayAddresses:
    """Return the addresses of the tool gateway: the socket for local hosts, and the TLS address for remote hosts."""
    server, listeners = settings.server, settings.tls.listeners
    addresses = GatewayAddresses(f"unix:{server.agents_socket}", listeners.agents_target or listeners.agents or "")
    if not server.host_groups:
        return addresses
    from sidecar.composition.host_groups import with_groups  # noqa: PLC0415  only where there are groups

    return with_groups(addresses, server)


def _prepared(connectors: ChosenConnectors, definitions: DefinitionsSource) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return a loop that creates the connectors of the cards after the start and after each change of the cards."""
    changed = asyncio.Event()
    definitions.add_observer(lambda _: changed.set())

    async def run() -> None:
        while True:
            changed.clear()  # before the catalogue is read: a change during `prepare` causes another pass
            catalogue = definitions.current()
            if catalogue is not None:
                await connectors.prepare(catalogue.cards.values())
            await changed.wait()

    return run


def _definitions(parts: Components) -> DefinitionsSource:
    configured = parts.settings.definitions
    reports = DefinitionsReports(parts.metrics, parts.readiness)
    commits_of: CommitsOf = no_commit
    if configured.git_commits:
        from sidecar.adapters.definitions_directory.git_history import GitHistory  # noqa: PLC0415  where git is read

        commits_of = GitHistory(configured.path).commits_of
    most = configured.max_sub_agents
    return DefinitionsSource(configured.path, reports.changed, commits_of=commits_of, max_sub_agents=most)
