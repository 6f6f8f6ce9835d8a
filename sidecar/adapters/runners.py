"""Selects the runner of each sub-agent and the connector of each tool among the loaded plugins, and creates them.

A runner is created at the first call for its target, a connector at the first call of a tool or by `prepare`. All are
kept until the sidecar stops, so that calls share the connections.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from sidecar.core.definitions.cards.card import Card
from sidecar.core.faults import Fault
from sidecar.core.identifiers import Digest
from sidecar.policy.factory import IN_PLACE, Making, make_connector, make_runner
from sidecar.policy.kinds import PLUGIN
from sidecar.policy.problems import PluginProblem
from sidecar.policy.protocols import (
    Connector,
    EnricherCall,
    EnricherRefused,
    EnricherReply,
    RefusalKind,
    Runner,
    RunnerError,
    RunnerEvent,
    RunRequest,
)
from sidecar.policy.selection import PolicyMap
from sidecar.policy.specs import ConnectorSpec, RunnerConfig, RunnerSpec

if TYPE_CHECKING:
    from sidecar.policy.targets import HostGroups

CloseOne = Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]
"""Calls the `close` of a plugin's object within a time limit. Raises nothing."""
CHOICES_KEPT: Final = 1024
"""Maximum number of cards whose runner is cached. Each version of the definitions may have new cards."""


class TargetMap(Struct, frozen=True):
    """The addresses of runner hosts in the settings, by slot and by vertical.

    A slot's entry overrides the target in the card, which overrides a vertical's entry.
    """

    slots: Mapping[str, str] = field(default_factory=dict)
    verticals: Mapping[str, str] = field(default_factory=dict)

    def of(self, card: Card) -> str | None:
        """Return the address of the runner host of a card; None: the runner's default."""
        definition = card.definition
        return self.slots.get(definition.slot) or definition.runner.target or self.verticals.get(definition.vertical)


class GatewayAddresses(Struct, frozen=True):
    """The addresses of the tool gateway for runner hosts.

    Attributes:
        local: the address for hosts on this machine that belong to no host group.
        remote: the address with TLS for hosts on other machines; empty: there is none.
        groups: the host groups of the sub-agents; None: there are no groups.
        of_groups: addresses for hosts on this machine, by group.
    """

    local: str
    remote: str = ""
    groups: "HostGroups | None" = None
    of_groups: Mapping[str, str] = field(default_factory=dict)

    def for_host_of(self, card: Card, target: str, *, over_tls: bool) -> str:
        """Return the address at which the runner host of a card reaches the tool gateway.

        A host at a Unix socket, or at a loopback address without TLS, counts as local. All others get the remote
        address, if there is one.

        Args:
            card: the card of a sub-agent.
            target: the address of its runner host.
            over_tls: whether the sidecar connects to the host with TLS.
        """
        definition = card.definition
        group = "" if self.groups is None else self.groups.of(definition.slot, definition.vertical)
        local = self.of_groups.get(group, self.local)
        if not self.remote:
            return local
        from sidecar.policy.targets import UNIX_SCHEMES, is_local  # noqa: PLC0415  only where there is TLS

        nearby = target.startswith(UNIX_SCHEMES) or (is_local(target) and not over_tls)
        return local if nearby else self.remote


class ChosenRunners:
    """Returns the runner of each sub-agent; implements `Runners`.

    Args:
        policy: selects runners by vertical.
        settings: the settings of each runner, by its name.
        targets: addresses of runner hosts.
        gateways: addresses of the tool gateway for runner hosts.
        making: creates runners.
    """

    def __init__(
        self,
        policy: PolicyMap,
        settings: Mapping[str, Mapping[str, Any]],
        targets: TargetMap,
        gateways: GatewayAddresses,
        making: Making = IN_PLACE,
    ) -> None:
        self._policy = policy
        self._making = making
        self._settings = settings
        self._targets = targets
        self._gateways = gateways
        # By name of the runner, target and address of the gateway. Sub-agents at one host share a runner, unless their
        # host groups use different gateways.
        self._made: dict[tuple[str, str | None, str], Runner] = {}
        self._chosen: dict[Digest, Runner] = {}

    def runner_for(self, card: Card) -> Runner:
        """Return the runner of a card. If it cannot be created, return a runner whose attempts all fail."""
        cached = self._chosen.get(card.digest)
        return self._choose(card) if cached is None else cached

    def _choose(self, card: Card) -> Runner:
        definition = card.definition
        target = self._targets.of(card)
        advice = ""
        try:
            spec = self._policy.runner(definition.vertical, definition.runner.kind, f"agents.{definition.id}.runner")
            if target is None:
                advice = f"set `[targets.slots] {definition.slot}`, or `runner.target` of its card; otherwise "
            runner = self._runner(spec, card, target)
        except PluginProblem as problem:
            # Not cached: an operator may correct the definition, and its next version must be tried again.
            fault = Fault(target or "", target or "", remedy=f"{advice}{problem.remedy}")
            return BrokenRunner(f"{definition.runner.kind}:{target}", problem.what, fault)
        if len(self._chosen) >= CHOICES_KEPT:
            # A choice is cheap to repeat, and the runners themselves stay in `_made`.
            self._chosen.clear()
        self._chosen[card.digest] = runner
        return runner

    def _runner(self, spec: RunnerSpec, card: Card, target: str | None) -> Runner:
        settings = self._settings.get(spec.name, {})
        # Without any address the host counts as local. The runner then refuses it, with a better message.
        host_address = target or str(settings.get("target") or "unix:")
        # A runner connects with TLS if its settings name the authority that signs the hosts' certificates.
        gateway = self._gateways.for_host_of(card, host_address, over_tls="ca_file" in settings)
        key = (spec.name, target, gateway)
        if key not in self._made:
            config = RunnerConfig(settings, target, gateway)
            self._made[key] = self._making.runner(spec, lambda: make_runner(spec, config), target or spec.name)
        return self._made[key]

    async def close(self, close_one: CloseOne) -> None:
        """Release every runner's connections."""
        # `close_one` raises nothing, so a failed close does not keep the others open.
        await asyncio.gather(*(close_one(one.close) for one in self._made.values()))


def exchanging_connectors(policy: PolicyMap, settings: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    """Return the names of connectors that need the tokens of users."""
    specs = [each.spec for each in policy.host.registered.values() if isinstance(each.spec, ConnectorSpec)]
    return [spec.name for spec in specs if spec.needs_user_token and spec.needs_user_token(settings.get(spec.name, {}))]


class ChosenConnectors:
    """Returns the connector of each tool; implements `Connectors`.

    Args:
        policy: selects connectors by vertical.
        settings: the settings of each connector, by its name.
        making: creates connectors.
    """

    def __init__(
        self,
        policy: PolicyMap,
        settings: Mapping[str, Mapping[str, Any]],
        making: Making = IN_PLACE,
    ) -> None:
        self._policy = policy
        self._settings = settings
        self._making = making
        self._made: dict[str, Connector] = {}

    def connector_for(self, card: Card, tool_id: str) -> Connector:
        """Return the connector of a tool. If it cannot be created, return one that refuses all calls as unavailable."""
        named = next((tool.connector for tool in card.tools if tool.id == tool_id), None)
        try:
            spec = self._policy.connector(card.definition.vertical, named, f"tools.{tool_id}.connector")
            return self._connector(spec)
        except PluginProblem as problem:
            return BrokenConnector(Fault(named or "", remedy=problem.remedy))

    async def prepare(self, cards: Iterable[Card]) -> None:
        """Create the connectors of all data-backed tools of the cards, so that no call has to wait for that."""
        needed = [(card, tool) for card in cards for tool in card.tools if tool.is_data_backed]
        for card, tool in needed:
            with suppress(PluginProblem):  # the first call that needs the connector gets the error
                spec = self._policy.connector(card.definition.vertical, tool.connector, f"tools.{tool.id}.connector")
                if spec.name not in self._made:
                    # Not for installed connectors: their factory runs in a thread of its own, and may block there.
                    if self._policy.host.is_own(spec):
                        await self._warm_up(spec)
                    # Checks again: a call may have created the connector during the await.
                    self._connector(spec)

    async def _warm_up(self, spec: ConnectorSpec) -> None:
        if spec.warm_up is not None:
            with suppress(Exception):  # the factory raises the same error, which is reported then
                section = self._settings.get(spec.name, {})
                own_settings = {name: section[name] for name in section if name != PLUGIN}
                # In a thread: it imports libraries, which blocks for hundreds of milliseconds.
                await asyncio.to_thread(_run_warm_up, spec.warm_up, own_settings)

    def _connector(self, spec: ConnectorSpec) -> Connector:
        if spec.name not in self._made:
            section = self._settings.get(spec.name, {})
            needs_user_token = bool(spec.needs_user_token and spec.needs_user_token(section))
            self._made[spec.name] = self._making.connector(
                spec, lambda: make_connector(spec, section), needs_user_token=needs_user_token
            )
        return self._made[spec.name]

    async def close(self, close_one: CloseOne) -> None:
        """Release every connector's connections."""
        await asyncio.gather(*(close_one(one.close) for one in self._made.values()))


class BrokenRunner:
    """Takes the place of a runner that cannot be created. Only the calls of its sub-agents fail."""

    # `run` must be an asynchronous generator, so it needs a `yield`; this is the empty sequence that it yields.
    _nothing: tuple[RunnerEvent, ...] = ()

    def __init__(self, target: str, problem: str, fault: Fault) -> None:
        self._target = target
        self._problem = problem
        self._fault = fault

    @property
    def target(self) -> str:
        """The key of the circuit breaker."""
        return self._target

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Report nothing and raise `RunnerError`."""
        for event in self._nothing:
            yield event
        raise RunnerError(self._problem, unreachable=True, fault=self._fault)

    async def close(self) -> None:
        """Do nothing."""


class BrokenConnector:
    """Takes the place of a connector that cannot be created. Only the calls of its tools fail."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Refuse as unavailable."""
        return EnricherRefused(RefusalKind.UNAVAILABLE, self._fault)

    async def close(self) -> None:
        """Do nothing."""


def _run_warm_up(warm_up: Callable[[Mapping[str, Any]], object], settings: Mapping[str, Any]) -> None:
    # `BaseException`, too: a `SystemExit` in the thread would be raised in the event loop, and would end the process.
    with suppress(BaseException):
        warm_up(settings)
