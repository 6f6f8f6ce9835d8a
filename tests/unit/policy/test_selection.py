"""Plugins are chosen by name: a platform default, and per vertical what differs."""

import pytest

from sidecar.core.flag_states import FlagRoutes
from sidecar.core.identifiers import Vertical
from sidecar.policy.kinds import PluginKind
from sidecar.policy.problems import PluginProblem
from sidecar.policy.selection import PolicyMap, PolicyNames, PolicySettings, resolve_policy
from tests.unit.policy.offered import PLATFORM, connector, flags, host_of, runner

SHOP, REWARDS = Vertical("shop"), Vertical("rewards")
HOST = host_of(*PLATFORM, flags("unleash"), runner("a2a"), connector("graph"))


def policy(default: PolicyNames | None = None, **verticals: PolicyNames) -> PolicyMap:
    """Resolve a `[policy]` section."""
    by_id = {Vertical(name): names for name, names in verticals.items()}
    return resolve_policy(PolicySettings(default or PolicyNames(), by_id), HOST)


def test_a_vertical_without_an_entry_gets_the_platforms_plugins() -> None:
    """So does what belongs to no vertical."""
    plugins = policy(PolicyNames(flags="unleash"))

    assert plugins.of(SHOP).flags.name == "unleash"
    assert plugins.of(None).runner.name == "grpc"
    assert plugins.of(SHOP).connector.name == "rest"


def test_a_vertical_overrides_only_what_it_names() -> None:
    """Its own flags and connector, the platform's runner."""
    plugins = policy(PolicyNames(runner="a2a"), rewards=PolicyNames(flags="unleash", connector="graph"))

    rewards = plugins.of(REWARDS)
    assert (rewards.flags.name, rewards.runner.name, rewards.connector.name) == ("unleash", "a2a", "graph")
    assert plugins.of(SHOP).flags.name == "memory"


def test_a_definition_or_tool_that_names_a_plugin_gets_that_one() -> None:
    """Before its vertical's."""
    plugins = policy(rewards=PolicyNames(runner="a2a"))

    assert plugins.runner(REWARDS, None, "shop.runner").name == "a2a"
    assert plugins.runner(REWARDS, "grpc", "shop.runner").name == "grpc"
    assert plugins.connector(SHOP, "graph", "orders.connector").name == "graph"


def test_flag_backends_in_use_are_listed_once_and_routed_by_vertical() -> None:
    """Two verticals share one backend, a third has the platform's."""
    plugins = policy(
        rewards=PolicyNames(flags="unleash"), support=PolicyNames(flags="unleash"), shop=PolicyNames(runner="a2a")
    )

    assert [spec.name for spec in plugins.flag_backends] == ["memory", "unleash"]
    routes = plugins.flag_routes
    assert isinstance(routes, FlagRoutes)
    assert [routes.backend_of(vertical) for vertical in (REWARDS, SHOP, None)] == ["unleash", "memory", "memory"]


def test_what_is_chosen_is_active_in_the_inventory_and_the_rest_available() -> None:
    """One row per descriptor, by kind and name."""
    rows = HOST.inventory(policy(rewards=PolicyNames(flags="unleash")).chosen)

    assert [(row.kind, row.name, str(row.state)) for row in rows] == [
        ("connector", "graph", "available"),
        ("connector", "rest", "active"),
        ("episode-memory", "in_process", "active"),
        ("flag-backend", "memory", "active"),
        ("flag-backend", "unleash", "active"),
        ("runner", "a2a", "available"),
        ("runner", "grpc", "active"),
    ]


@pytest.mark.parametrize(
    ("default", "verticals", "expected"),
    [
        (
            PolicyNames(flags="unlesh"),
            {},
            ["no flag-backend named `unlesh`", "policy.default.flags", "memory, unleash", "did you mean `unleash`?"],
        ),
        (PolicyNames(), {"shop": PolicyNames(runner="zzz")}, ["policy.verticals.shop.runner", "a2a, grpc"]),
        (PolicyNames(), {"shop": PolicyNames(connector="")}, ["policy.verticals.shop.connector", "graph, rest"]),
        (PolicyNames(), {"shop": PolicyNames(connector="grpc")}, ["no connector named `grpc`"]),
    ],
)
def test_an_unknown_name_stops_the_start_and_lists_the_choices(
    default: PolicyNames, verticals: dict[str, PolicyNames], expected: list[str]
) -> None:
    """Says which setting, what may be chosen, and what was probably meant."""
    with pytest.raises(PluginProblem) as refused:
        policy(default, **verticals)

    for part in expected:
        assert part in str(refused.value)


def test_a_plugin_of_a_kind_does_not_hide_one_of_another_kind_with_the_same_name() -> None:
    """Names are unique within their kind."""
    host = host_of(*PLATFORM, flags("grpc"))

    assert host.names(PluginKind.FLAG_BACKEND) == ("grpc", "memory")
    assert resolve_policy(PolicySettings(), host).default.runner.summary == "Runner grpc"
