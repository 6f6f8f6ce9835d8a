"""Checks the peers of a sidecar: runner hosts, data services, and a sidecar that already runs at the same address."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import grpc
from grpc_health.v1 import health_pb2

from sidecar.adapters.runner_grpc.settings import GrpcRunnerSettings
from sidecar.adapters.runners import TargetMap
from sidecar.cli.health import answer_of
from sidecar.core.decoding import from_json
from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.operations.process.findings import Finding, error, ok, warning
from sidecar.policy.kinds import PLUGIN
from sidecar.policy.problems import PluginProblem
from sidecar.policy.selection import PolicyMap
from sidecar.policy.targets import UNIX_SCHEMES
from sidecar.settings import Settings
from sidecar.settings.name_checks import NO_TARGET, without_target
from subagents_tls.channels import RotatingChannel
from subagents_tls.files import WatchedFiles

HEALTH: Final = "/grpc.health.v1.Health/Check"
GRPC: Final = "grpc"
HTTPS: Final = 443
HTTP: Final = 80
OF_A_SIDECAR: Final = re.compile(r'\{\s*"ready":')
"""The beginning of the readiness page, by which a running sidecar is recognised."""
SOCKET: Final = re.compile(r'"dispatch_socket": ("(?:[^"\\]|\\.)*")')


def examine_ops_address(address: str, socket: str, seconds: float) -> Finding:
    """Return whether the ops address is free, or the answer of the sidecar that runs there.

    Args:
        address: `server.ops_address`.
        socket: `server.dispatch_socket`; a sidecar with another socket is another sidecar.
        seconds: the longest wait to connect, and then for the answer.
    """
    about = f"server.ops_address {address}"
    remedy = "stop what listens there, or set `server.ops_address`; port 0 takes any free one"
    try:
        status, body = answer_of(address, seconds)
    # A refusal is the only proof that the address is free; a timeout could be a program that hangs.
    except ConnectionRefusedError:
        return ok("ops", about, "free")
    except (OSError, ValueError) as problem:
        return error("ops", about, f"another program listens there: {problem}", remedy)
    # By pattern and not by parsing: the body is that of any program, and may be cut off.
    if not OF_A_SIDECAR.match(body):
        return error("ops", about, "another program listens there", remedy)
    # An older sidecar shows no socket; it is assumed to be this one.
    shown = SOCKET.search(body)
    if shown and (other := from_json(shown[1])) != socket:
        return error("ops", about, f"another sidecar runs there, with the dispatch socket {other}", remedy)
    if status == HTTPStatus.OK:
        return ok("ops", about, "a sidecar runs there and accepts turns")
    return warning("ops", about, "a sidecar runs there, but accepts no turns", f"read http://{address}/readyz")


class _Target(NamedTuple):
    """The address of a runner host, with its runner.

    Attributes:
        instance: the name of the runner in the settings.
        plugin: the plugin of this instance.
    """

    instance: str
    plugin: str
    address: str


async def examine_runners(
    settings: Settings, policy: PolicyMap, catalogue: Catalogue, seconds: float
) -> Sequence[Finding]:
    """Return a finding for each target of a sub-agent. All targets are checked concurrently."""
    targets = TargetMap(settings.targets.slots, settings.targets.verticals)
    findings = [
        error("runners", str(each.id), NO_TARGET, remedy) for each, remedy in without_target(settings, catalogue)
    ]
    # Grouped by address: a host that serves ten sub-agents is asked once.
    by_target: dict[_Target, list[str]] = {}
    # Only slots that an orchestrator offers: the sidecar never calls the others, so they need no host.
    offered = {slot for card in catalogue.cards.values() for slot in card.definition.sub_agents}
    for card in catalogue.cards.values():
        if card.definition.slot in offered:
            _add_to_target(card, targets, policy, settings, by_target, findings)
    checks = [
        _examine_host(target, names, seconds, _channels(settings, target.instance))
        for target, names in by_target.items()
    ]
    return [*findings, *await asyncio.gather(*checks)]


def _add_to_target(
    card: Card,
    targets: TargetMap,
    policy: PolicyMap,
    settings: Settings,
    by_target: dict[_Target, list[str]],
    findings: list[Finding],
) -> None:
    """Add a card to the cards of its target, or add a finding if its runner is unknown."""
    definition = card.definition
    try:
        runner = policy.runner(definition.vertical, definition.runner.kind, f"agents.{definition.id}.runner")
    except PluginProblem as problem:
        findings.append(error("runners", str(definition.id), problem.what, problem.remedy))
        return
    plugin = policy.host.plugin_of(runner)
    # A card without any address is reported by `without_target` in `examine_runners`.
    address = targets.of(card) or settings.runners.get(runner.name, {}).get("target")
    if address:
        by_target.setdefault(_Target(runner.name, plugin, address), []).append(str(definition.id))


def _channels(settings: Settings, instance: str) -> Callable[[str], grpc.aio.Channel]:
    """Return a function that opens a connection to a runner host in the same way as that instance of runner `grpc`."""
    # A proxy of the environment must not receive calls to runner hosts; the runner sets the same option.
    options = (("grpc.enable_http_proxy", 0),)
    tls: list[WatchedFiles] = []
    try:
        files = GrpcRunnerSettings(**_without_plugin(settings.runners.get(instance, {}))).tls
        tls = [] if files is None else [WatchedFiles(files)]
    except ValueError:  # the finding about plugins says what is wrong
        pass

    def opened(target: str) -> grpc.aio.Channel:
        # A Unix socket is protected by its directory, so the runner uses no TLS there, either.
        if not tls or target.startswith(UNIX_SCHEMES):
            return grpc.aio.insecure_channel(target, options=options)
        return RotatingChannel(target, tls[0], options)

    return opened


def _without_plugin(section: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in section.items() if name != PLUGIN}


async def _examine_host(
    target: _Target, names: Sequence[str], seconds: float, open_channel: Callable[[str], grpc.aio.Channel]
) -> Finding:
    about = f"{', '.join(names)} at {target.address}"
    # Other runners have protocols of their own; only the TCP connection can be checked.
    if target.plugin != GRPC:
        parts = urlsplit(target.address)
        # No host and port in the address, e.g. that of a runner that starts processes.
        if parts.hostname is None:
            return ok("runners", about, f"runner `{target.instance}`: not checked")
        return await _examine_connection("runners", about, parts.hostname, _port_of(target.address), seconds)
    # The standard health service, because a `Run` would start work.
    async with open_channel(target.address) as channel:
        ask = channel.unary_unary(
            HEALTH,
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answer = await ask(health_pb2.HealthCheckRequest(), timeout=seconds)
        except grpc.aio.AioRpcError as failure:
            # This answer came from a gRPC server, so the host runs.
            if failure.code() is grpc.StatusCode.UNIMPLEMENTED:
                return ok("runners", about, "answers; it has no health service")
            remedy = "start the runner host (docs/runner-hosts.md), or correct the address in `targets`"
            return error("runners", about, f"no runner host answers ({failure.code().name})", remedy)
    if answer.status == health_pb2.HealthCheckResponse.SERVING:
        return ok("runners", about, "accepts attempts")
    return warning("runners", about, "answers, but accepts no attempts", "wait until it has started, or read its log")


async def examine_services(catalogue: Catalogue, seconds: float) -> Sequence[Finding]:
    """Return a finding for each data service that a tool names. Only a connection is opened; no request is sent."""
    by_address: dict[tuple[str, int], list[str]] = {}
    for name, tool in catalogue.tools.items():
        parts = urlsplit(tool.endpoint or "")
        if parts.hostname is not None:
            by_address.setdefault((parts.hostname, _port_of(tool.endpoint or "")), []).append(str(name))
    work = [
        _examine_connection("data services", f"{', '.join(tools)} at {host}:{port}", host, port, seconds)
        for (host, port), tools in by_address.items()
    ]
    return await asyncio.gather(*work)


async def _examine_connection(area: str, about: str, host: str, port: int, seconds: float) -> Finding:
    """Return whether a TCP connection can be opened within the time."""
    try:
        async with asyncio.timeout(seconds):
            # No request: it would need a user, and could have an effect at the service.
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as problem:
        why = f"cannot be reached: {str(problem) or 'no answer in time'}"
        return error(area, about, why, "start it, or correct its address")
    writer.close()
    return ok(area, about, "can be reached")


def _port_of(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or SCHEME_PORTS.get(parts.scheme, HTTP)


SCHEME_PORTS: Final[Mapping[str, int]] = {"https": HTTPS, "http": HTTP}
