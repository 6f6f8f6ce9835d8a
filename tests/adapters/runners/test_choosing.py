"""Who executes a card, and who carries a tool's requests."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from sidecar.adapters import memory_in_process
from sidecar.adapters.runners import CHOICES_KEPT, ChosenConnectors, ChosenRunners, GatewayAddresses, TargetMap
from sidecar.adapters.system import closed
from sidecar.core.definitions.cards.card import AgentDefinition, Card, ModelEntry, Role, RunnerRef, ToolEntry
from sidecar.core.definitions.cards.digest import digest_of_card
from sidecar.core.identifiers import Commit, DefinitionId, ModelId, Principal, Slot, ToolId, Vertical
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.loading import load_plugins
from sidecar.policy.protocols import (
    EnricherCall,
    EnricherRefused,
    EnricherReply,
    RefusalKind,
    RunnerError,
    RunnerEvent,
    RunRequest,
)
from sidecar.policy.selection import PolicyMap, PolicyNames, PolicySettings, resolve_policy
from sidecar.policy.specs import ConnectorSpec, FlagBackendSpec, RunnerConfig, RunnerSpec
from sidecar.policy.targets import HostGroups


@dataclass
class MadeRunner:
    """Knows what it was made from."""

    config: RunnerConfig
    closed: bool = False

    @property
    def target(self) -> str:
        """Where it runs things."""
        return self.config.target or "default"

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Report nothing."""
        none: tuple[RunnerEvent, ...] = ()
        for event in none:
            yield event

    async def close(self) -> None:
        """Take note."""
        self.closed = True


@dataclass
class MadeConnector:
    """Knows what it was made from."""

    settings: Mapping[str, Any]
    closed: bool = False

    async def enrich(self, call: EnricherCall) -> EnricherReply:
        """Refuse."""
        return EnricherRefused(RefusalKind.TIMEOUT)

    async def close(self) -> None:
        """Fail, as one of several."""
        self.closed = True
        raise ValueError


class NoFlags:
    """A flag backend that nobody asks."""

    async def fetch(self) -> Any:
        """Is not called."""

    async def changed(self) -> None:
        """Is not called."""

    async def close(self) -> None:
        """Is not called."""


@dataclass
class Offered:
    """A plugin with two runners, two connectors and a flag backend."""

    made: list[MadeRunner | MadeConnector] = field(default_factory=list)

    @hookimpl
    def sidecar_runners(self) -> Sequence[RunnerSpec]:
        """Offer runners."""
        return [
            RunnerSpec(name=name, contract="runner/1", summary=name, factory=self._runner) for name in ("one", "two")
        ]

    @hookimpl
    def sidecar_connectors(self) -> Sequence[ConnectorSpec]:
        """Offer connectors."""
        return [
            ConnectorSpec(name=name, contract="connector/1", summary=name, factory=self._connector)
            for name in ("plain", "other")
        ]

    @hookimpl
    def sidecar_flag_backends(self) -> Sequence[FlagBackendSpec]:
        """Offer flags."""
        make = lambda settings: NoFlags()  # noqa: E731  as short as it is unimportant
        return [FlagBackendSpec(name="none", contract="flag-backend/1", summary="none", factory=make)]

    def _runner(self, config: RunnerConfig) -> MadeRunner:
        self.made.append(MadeRunner(config))
        return self.made[-1]  # type: ignore[return-value]  # just appended

    def _connector(self, settings: Mapping[str, Any]) -> MadeConnector:
        self.made.append(MadeConnector(settings))
        return self.made[-1]  # type: ignore[return-value]  # just appended


def policy(offered: Offered) -> PolicyMap:
    """Vertical `money` has a runner and a connector of its own."""
    settings = PolicySettings(
        PolicyNames("none", "one", "plain"), {Vertical("money"): PolicyNames(None, "two", "other")}
    )
    return resolve_policy(settings, load_plugins([offered, memory_in_process], PluginSelection(), offers=()))


MODEL = ModelEntry(ModelId("m"), "m", 1000)


def card(slot: str, *, runner: RunnerRef | None = None, vertical: str = "", connector: str | None = None) -> Card:
    """Return a card with one tool."""
    definition = AgentDefinition(
        id=DefinitionId(slot),
        description=slot,
        role=Role.NATIVE,
        model=ModelId("m"),
        vertical=Vertical(vertical or slot),
        runner=runner or RunnerRef(),
    )
    tool = ToolEntry(ToolId("find"), "find", connector=connector)
    return Card(definition, MODEL, (tool,), (), digest_of_card(definition, MODEL, (tool,), ()), Commit("c"))


TARGETS = TargetMap({Slot("shop"): "unix:/slot"}, {Vertical("shop"): "unix:/vertical", Vertical("money"): "unix:/m"})


@pytest.mark.parametrize(
    ("asked", "runner", "target"),
    [
        (card("shop", runner=RunnerRef(None, "unix:/card")), "one", "unix:/slot"),
        (card("gifts", vertical="shop", runner=RunnerRef(None, "unix:/card")), "one", "unix:/card"),
        (card("gifts", vertical="shop"), "one", "unix:/vertical"),
        (card("coins", vertical="money"), "two", "unix:/m"),
        (card("coins", vertical="money", runner=RunnerRef("one")), "one", "unix:/m"),
        (card("support"), "one", "default"),
    ],
    ids=["slot first", "then card", "then vertical", "vertical's runner", "card's runner", "runner's default"],
)
def test_the_target_is_the_slots_the_cards_or_the_verticals(asked: Card, runner: str, target: str) -> None:
    """In this order, for whichever runner card, vertical or default name."""
    chosen = ChosenRunners(policy(Offered()), {}, TARGETS, GatewayAddresses("unix:/gateway"))
    found = chosen.runner_for(asked)
    assert isinstance(found, MadeRunner)
    assert (found.target, found.config.gateway_address) == (target, "unix:/gateway")
    assert chosen.runner_for(asked) is found


@pytest.mark.parametrize(
    ("target", "over_tls", "told"),
    [
        ("unix:/run/shop.sock", True, "unix:/gateway"),
        ("127.0.0.1:7500", False, "unix:/gateway"),
        ("127.0.0.1:7500", True, "dns:///sidecar:7444"),
        ("dns:///shop:7500", False, "dns:///sidecar:7444"),
        ("dns:///shop:7500", True, "dns:///sidecar:7444"),
    ],
)
def test_a_host_is_told_the_gateway_that_it_can_reach(target: str, over_tls: bool, told: str) -> None:
    """The socket on this machine; the TLS address to hosts elsewhere, and to those that are reached with TLS."""
    both, local = GatewayAddresses("unix:/gateway", "dns:///sidecar:7444"), GatewayAddresses("unix:/gateway")
    assert both.for_host_of(card("shop"), target, over_tls=over_tls) == told
    assert local.for_host_of(card("shop"), target, over_tls=over_tls) == "unix:/gateway"


def test_a_host_of_a_group_is_told_the_socket_of_its_group() -> None:
    """By slot, then by vertical. A host of two groups has a runner for each, so each attempt names the right socket."""
    groups = HostGroups({"shop": "a"}, {"shop": "b", "money": "b"})
    gateways = GatewayAddresses("unix:/gateway", groups=groups, of_groups={"a": "unix:/a", "b": "unix:/b"})
    chosen = ChosenRunners(policy(Offered()), {}, TargetMap(verticals={"shop": "unix:/host"}), gateways)
    asked = (card("shop"), card("gifts", vertical="shop"), card("coins", vertical="money"), card("support"))
    found = [chosen.runner_for(each) for each in asked]
    told = [each.config.gateway_address for each in found if isinstance(each, MadeRunner)]
    assert told == ["unix:/a", "unix:/b", "unix:/b", "unix:/gateway"]
    assert [each.target for each in found[:2]] == ["unix:/host", "unix:/host"]


async def test_a_runner_that_cannot_be_had_fails_its_own_calls_only() -> None:
    """Named by a definition and not loaded: its attempts fail as unreachable, others are served."""
    chosen = ChosenRunners(policy(Offered()), {}, TARGETS, GatewayAddresses(""))
    broken = chosen.runner_for(card("gifts", runner=RunnerRef("thre")))
    with pytest.raises(RunnerError, match="there is no runner named `thre`") as failed:
        _ = [event async for event in broken.run(None)]  # type: ignore[arg-type]  # not looked at
    assert (failed.value.unreachable, failed.value.transient) == (True, False)
    assert failed.value.fault is not None
    assert failed.value.fault.remedy.startswith("choose one of: one, two")
    assert isinstance(chosen.runner_for(card("shop")), MadeRunner)


class NeedsATarget(Offered):
    """A runner that cannot be made without an address."""

    def _runner(self, config: RunnerConfig) -> MadeRunner:
        if config.target is None:
            raise ValueError("it needs a target")
        return super()._runner(config)


async def test_a_slot_without_an_address_says_where_to_write_it() -> None:
    """Nobody named one: the fault has no address, and its remedy names slot and setting."""
    broken = ChosenRunners(policy(NeedsATarget()), {}, TargetMap(), GatewayAddresses("")).runner_for(card("gifts"))
    with pytest.raises(RunnerError, match="it needs a target") as failed:
        _ = [event async for event in broken.run(None)]  # type: ignore[arg-type]  # not looked at
    assert failed.value.unreachable
    assert failed.value.fault is not None
    assert (failed.value.fault.address, failed.value.fault.in_words()) == ("", "no address")
    assert "set `[targets.slots] gifts`" in failed.value.fault.remedy


class EndsTheProcess(Offered):
    """A runner and a connector whose factories raise what would end the event loop of the sidecar."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def _runner(self, config: RunnerConfig) -> MadeRunner:
        raise self._error

    def _connector(self, settings: Mapping[str, Any]) -> MadeConnector:
        raise self._error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=repr)
async def test_a_factory_that_would_end_the_process_fails_its_own_calls_only(error: BaseException) -> None:
    """Runner and connector are made at the first call that needs them, inside the sidecar's event loop."""
    offered = policy(EndsTheProcess(error))
    broken = ChosenRunners(offered, {}, TARGETS, GatewayAddresses("")).runner_for(card("gifts"))
    with pytest.raises(RunnerError, match=f"making it failed with {type(error).__name__}"):
        _ = [event async for event in broken.run(None)]  # type: ignore[arg-type]  # not looked at
    connectors = ChosenConnectors(offered, {})
    await connectors.prepare([card("shop")])
    call = EnricherCall(ToolId("find"), "", "", "", Principal("user"), "{}", None, timedelta(seconds=1))
    refused = await connectors.connector_for(card("shop"), "find").enrich(call)
    assert isinstance(refused, EnricherRefused)
    assert refused.kind is RefusalKind.UNAVAILABLE


async def test_a_connector_that_cannot_be_had_is_a_service_that_is_away() -> None:
    """The tool's, else the vertical's, else the default."""
    chosen = ChosenConnectors(policy(Offered()), {})
    call = EnricherCall(ToolId("find"), "", "", "", Principal("user"), "{}", None, timedelta(seconds=1))
    refused = await chosen.connector_for(card("shop", connector="nowhere"), "find").enrich(call)
    assert isinstance(refused, EnricherRefused)
    assert refused.kind is RefusalKind.UNAVAILABLE
    assert refused.fault is not None
    assert "plugins.enabled" in refused.fault.remedy
    plain = chosen.connector_for(card("shop"), "find")
    assert chosen.connector_for(card("coins", vertical="money", connector="plain"), "find") is plain
    assert chosen.connector_for(card("coins", vertical="money"), "find") is not plain


def test_a_choice_is_remembered_by_what_the_card_says() -> None:
    """An equal card has the same runner, one that differs in its target another; what is forgotten is chosen again."""
    offered = Offered()
    chosen = ChosenRunners(policy(offered), {}, TARGETS, GatewayAddresses(""))
    targets = [f"unix:/{number}" for number in range(CHOICES_KEPT + 2)]
    cards = [card("gifts", runner=RunnerRef(None, target)) for target in targets]

    found = [[chosen.runner_for(each).target for each in cards] for _ in range(2)]

    assert found == [targets] * 2
    assert chosen.runner_for(card("gifts", runner=RunnerRef(None, targets[0]))) is chosen.runner_for(cards[0])
    assert len(offered.made) == len(targets)


async def test_everything_that_was_made_is_closed() -> None:
    """Also beside one that fails to."""
    offered = Offered()
    runners = ChosenRunners(policy(offered), {}, TARGETS, GatewayAddresses(""))
    connectors = ChosenConnectors(policy(offered), {})
    for slot in ("shop", "support"):
        runners.runner_for(card(slot))
    connectors.connector_for(card("shop"), "find")
    connectors.connector_for(card("coins", vertical="money"), "find")

    await runners.close(closed)
    await connectors.close(closed)

    assert [one.closed for one in offered.made] == [True] * 4
