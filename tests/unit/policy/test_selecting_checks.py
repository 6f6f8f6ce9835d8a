"""Gate clients and lifecycle policies are chosen per vertical; the platform's rules are always there."""

from collections.abc import Sequence
from typing import Any

import pytest

from sidecar.core.identifiers import Vertical
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import PluginHost, load_plugins
from sidecar.policy.platform import PLATFORM_POLICY
from sidecar.policy.problems import PluginProblem
from sidecar.policy.selection import PolicyNames, PolicySettings, VerticalPlugins, resolve_policy
from sidecar.policy.specs import GateClientSpec, LifecyclePolicySpec
from tests.unit.policy.offered import PLATFORM, Offering


def unmade(_settings: Any) -> Any:
    """Nobody makes one here."""


class Checks:
    """Offers these by name."""

    def __init__(self, gates: Sequence[str], policies: Sequence[str]) -> None:
        self._gates, self._policies = gates, policies

    @hookimpl
    def sidecar_gate_clients(self) -> Sequence[GateClientSpec]:
        """Offer the gate clients."""
        return [
            GateClientSpec(name=name, contract="gate-client/1", summary=name, factory=unmade) for name in self._gates
        ]

    @hookimpl
    def sidecar_lifecycle_policies(self) -> Sequence[LifecyclePolicySpec]:
        """Offer the policies."""
        return [
            LifecyclePolicySpec(name=name, contract="lifecycle-policy/1", summary=name, factory=unmade)
            for name in self._policies
        ]


def host(*more: object) -> PluginHost:
    """Load two of each."""
    plugins = [Offering(*PLATFORM), Checks(["http", "manifest"], ["freeze", "two"]), *more]
    return load_plugins(plugins, PluginSelection(), offers=())


def chosen(default: PolicyNames, rewards: PolicyNames) -> VerticalPlugins:
    """Return what a vertical gets."""
    return resolve_policy(PolicySettings(default, {Vertical("rewards"): rewards}), host()).of(Vertical("rewards"))


@pytest.mark.parametrize(
    ("default", "own", "expected"),
    [
        (None, None, {}),
        ("http", None, {"*": "http"}),
        ("http", "manifest", {"*": "manifest"}),
        ("http", {"pre_merge": "manifest"}, {"*": "http", "pre_merge": "manifest"}),
        ({"*": "http", "pre_merge": "manifest"}, "http", {"*": "http"}),
        ({"pre_ramp": "http"}, {"pre_merge": "manifest"}, {"pre_ramp": "http", "pre_merge": "manifest"}),
        ({"pre_ramp": "http"}, {"*": "manifest"}, {"*": "manifest"}),
    ],
)
def test_a_gate_that_a_vertical_does_not_name_is_the_platforms(default: Any, own: Any, expected: Any) -> None:
    """One name stands for all gates, `*` for all that are not named, and a gate that nobody names has no client."""
    gates = chosen(PolicyNames(gates=default), PolicyNames(gates=own)).gates

    assert {gate: spec.name for gate, spec in gates.items()} == expected


@pytest.mark.parametrize(
    ("default", "own", "expected"),
    [
        (None, None, []),
        (("platform", "freeze"), None, ["freeze"]),
        (("freeze",), ("two", "freeze", "two"), ["two", "freeze"]),
        (("freeze",), (), []),
    ],
)
def test_a_verticals_policies_take_the_place_of_the_default_ones(default: Any, own: Any, expected: list[str]) -> None:
    """In their order; the platform's own rules come before them, named or not."""
    policies = chosen(PolicyNames(lifecycle=default), PolicyNames(lifecycle=own)).lifecycle

    assert [spec.name for spec in policies] == expected


@pytest.mark.parametrize(
    ("names", "where"),
    [
        (PolicyNames(gates="htpp"), "no gate-client named `htpp`"),
        (PolicyNames(gates={"pre_merge": "htpp"}), "policy.verticals.rewards.gates"),
        (PolicyNames(lifecycle=("freez",)), "did you mean `freeze`?"),
    ],
)
def test_an_unknown_name_stops_the_start(names: PolicyNames, where: str) -> None:
    """It says where, and what may be chosen."""
    with pytest.raises(PluginProblem) as refused:
        chosen(PolicyNames(), names)

    assert where in str(refused.value)


def test_nobody_takes_the_platforms_place() -> None:
    """A plugin that offers `platform` meets the one that is built in."""

    class BuiltIn:
        @hookimpl
        def sidecar_lifecycle_policies(self) -> Sequence[LifecyclePolicySpec]:
            """Offer it."""
            return [PLATFORM_POLICY]

    with pytest.raises(PluginProblem, match="two plugins offer a lifecycle-policy named `platform`"):
        host(BuiltIn(), Checks([], ["platform"]))


def test_the_list_shows_gate_clients_and_policies_and_which_are_in_use() -> None:
    """The platform's rules always are."""
    loaded = host(Checks([], ["platform"]))
    policy = resolve_policy(PolicySettings(PolicyNames(gates="http"), {}), loaded)
    kinds = {PluginKind.GATE_CLIENT, PluginKind.LIFECYCLE_POLICY}

    rows = [row for row in loaded.inventory(policy.chosen) if row.kind in kinds]

    assert [(row.kind, row.name, str(row.state)) for row in rows] == [
        ("gate-client", "http", "active"),
        ("gate-client", "manifest", "available"),
        ("lifecycle-policy", "freeze", "available"),
        ("lifecycle-policy", "platform", "active"),
        ("lifecycle-policy", "two", "available"),
    ]
