"""A broken, hanging, lying, blocking or leaking plugin of each kind: its vertical fails closed, the others go on.

The plugins are those of the kit, which authors run too: `sidecar_conformance.misbehaving`. One that blocks really
blocks its thread, until the test is over: what is answered meanwhile is answered by another thread.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import pytest

from sidecar.adapters.plugin_threads.threads import PluginThreads
from sidecar.adapters.step_checks import ChosenGates, ChosenPolicies, PolicyThreads
from sidecar.core.identifiers import Vertical
from sidecar.operations.rollout.steps.gate_checks import GateEvaluator, GateRules
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.instances import with_instances
from sidecar.policy.kinds import PluginKind
from sidecar.policy.lifecycle import PolicyAnswer
from sidecar.policy.loading import load_plugins
from sidecar.policy.selection import PolicyMap, PolicyNames, PolicySettings, resolve_policy
from sidecar_conformance.gate_client import QUESTION
from sidecar_conformance.misbehaving import BLOCKING, SECRET, Misbehaviour
from sidecar_conformance.policy_bench import changed
from subagents.dispatch.v1 import outcome_pb2
from subagents_client.runner import DataUnavailable
from tests.adapters.step_checks.test_isolation import Checks
from tests.support.whole_chain import Chain, WatchedFlags, asks, running_chain
from tests.unit.policy.offered import PLATFORM, Offering
from tests.unit.rollout.building import facts
from tests.unit.rollout.test_gatekeeping import Clock, Told

EACH: Final = pytest.mark.parametrize("how", list(Misbehaviour))
KIT: Final = "sidecar-conformance"
ENABLED: Final = {"enabled": [KIT]}
MUCH_LONGER: Final = 30.0
"""Seconds for which a call blocks unless it is let go; longer than a test takes."""
SHOP, REWARDS = Vertical("shop"), Vertical("rewards")
FLAG: Final = "ai_assistant_subagent_{}"
FLAGS: Final = [f"{FLAG.format(name)}{end}" for name in ("shop", "rewards") for end in ("", "_cohort")]
EDITS: Final = {
    "  - id: shop\n": f"  - id: shop\n    enabled_via_flag: {FLAG.format('shop')}\n",
    "  - id: rewards\n": f"  - id: rewards\n    enabled_via_flag: {FLAG.format('rewards')}\n",
}


def chosen(how: Misbehaviour, *kinds: str) -> dict[str, Any]:
    """Return settings whose vertical `rewards` has the misbehaving plugin of these kinds."""
    sections = {"flags": "flags", "runner": "runners", "connector": "connectors"}
    default = {"flags": "watched", "runner": "grpc", "connector": "rest"}
    policy = {"default": default, "verticals": {"rewards": dict.fromkeys(kinds, "bad")}}
    return {"plugins": ENABLED, "policy": policy, **{sections[kind]: bad(how) for kind in kinds}}


def bad(how: Misbehaviour) -> dict[str, Any]:
    """Return the settings of an instance that misbehaves so."""
    return {"bad": {"plugin": "misbehaving", "how": how.value, "seconds": MUCH_LONGER}}


@pytest.fixture(autouse=True)
def held() -> Iterator[None]:
    """Let whatever blocks go when the test is over."""
    BLOCKING.hold()
    yield
    BLOCKING.release()


@asynccontextmanager
async def chain_with(
    how: Misbehaviour, settings: Mapping[str, Any], edits: Mapping[str, str] | None = None, **more: Any
) -> AsyncIterator[Chain]:
    """Run a chain. If the plugin blocks: see that it still does when the work is done, and let it go before the end."""
    async with running_chain(edits, settings=settings, **more) as chain:
        yield chain
        blocked = BLOCKING.waiting
        BLOCKING.release()
    assert (blocked > 0) is (how is Misbehaviour.BLOCK)


@EACH
async def test_flags_that_misbehave_take_off_the_sub_agents_of_their_vertical_only(how: Misbehaviour) -> None:
    """Its flags are unreachable, which is not on; the flags of `shop` are on."""
    refresh = {"fetch_deadline": "200ms"}
    settings, flags = chosen(how, "flags"), WatchedFlags(*FLAGS)
    async with chain_with(how, settings, EDITS, flags=flags, flag_refresh=refresh) as chain:
        bound = await chain.bind()
        (outcome,) = (await chain.dispatch(bound, "ask_shop")).outcomes

    tools = [tool.name for tool in bound.surface.sub_agent_tools]
    assert ("ask_shop" in tools, "ask_rewards" in tools) == (True, False)
    assert outcome.outcome == outcome_pb2.OUTCOME_SUCCEEDED


@EACH
async def test_a_runner_that_misbehaves_fails_the_calls_of_its_vertical_only(how: Misbehaviour) -> None:
    """In one dispatch: the other call is answered."""
    edits = {"attempt_timeout: 15s": "attempt_timeout: 1s"}
    async with chain_with(how, chosen(how, "runner"), edits) as chain:
        shop, rewards = (await chain.dispatch(await chain.bind(), "ask_shop", "ask_rewards")).outcomes
        (again,) = (await chain.dispatch(await chain.bind(), "ask_shop")).outcomes

    assert again.outcome == outcome_pb2.OUTCOME_SUCCEEDED
    assert (shop.outcome, rewards.outcome) == (outcome_pb2.OUTCOME_SUCCEEDED, outcome_pb2.OUTCOME_FAILED)
    assert SECRET not in str(rewards)


@EACH
async def test_a_connector_that_misbehaves_gives_no_data_to_its_vertical_only(how: Misbehaviour) -> None:
    """Neither the data of another user, nor what an exception says."""
    before = "version: 1.2.0\n    echoes_nonce: true\n    timeout: "
    edits = {f"{before}5s": f"{before}1s"}
    async with chain_with(how, chosen(how, "connector"), edits) as chain:
        chain.use("shop", asks("search_offers", query="coffee"))
        chain.use("rewards", asks("points_balance"))
        result = await chain.dispatch(await chain.bind(), "ask_rewards")
        await chain.dispatch(await chain.bind(), "ask_shop")

    assert [isinstance(data, DataUnavailable) for data in chain.received] == [True, False]
    assert SECRET not in str(result)


@EACH
async def test_a_memory_and_a_sink_that_misbehave_cost_no_turn(how: Misbehaviour) -> None:
    """Both belong to the whole platform: turns go on without history, and the audit waits on record."""
    default = {"flags": "watched", "memory": "bad"}
    settings = {
        "plugins": ENABLED,
        "policy": {"default": default},
        "memories": bad(how),
        "audit_sinks": bad(how),
        "audit": {"sinks": ["log", "bad"]},
    }
    async with chain_with(how, settings) as chain:
        bound = await chain.bind(episode_id="e-1")
        (outcome,) = (await chain.dispatch(bound, "ask_shop")).outcomes
        await chain.end(bound)

    assert outcome.outcome == outcome_pb2.OUTCOME_SUCCEEDED


def unheard(_kind: str, _detail: str) -> None:
    """Take no note."""


def resolved(how: Misbehaviour, rewards: PolicyNames) -> tuple[PolicyMap, dict[str, dict[str, str]]]:
    """Return the plugins of a default that is right and of `rewards`, and the settings of `bad`."""
    sections = bad(how)
    loaded = load_plugins([Offering(*PLATFORM), Checks()], PluginSelection((KIT,)))
    host = with_instances(loaded, {PluginKind.GATE_CLIENT: sections, PluginKind.LIFECYCLE_POLICY: sections})
    default = PolicyNames(gates="right", lifecycle=("right",))
    return resolve_policy(PolicySettings(default, {REWARDS: rewards}), host), sections


@EACH
async def test_a_gate_client_that_misbehaves_holds_the_steps_of_its_vertical_only(how: Misbehaviour) -> None:
    """A pass for another digest is not believed; nothing counts as a failed gate."""
    policy, sections = resolved(how, PolicyNames(gates="bad"))
    gates, told = ChosenGates(policy, sections, unheard, PluginThreads(policy.host, unheard)), Told()
    evaluator = GateEvaluator(GateRules(timedelta(milliseconds=50)), gates.client_for, Clock(), told)

    (rewards,) = await evaluator.ask_all(QUESTION, ["pre_ramp"], REWARDS, facts("rewards"))
    (shop,) = await evaluator.ask_all(QUESTION, ["pre_ramp"], SHOP, facts("shop"))
    blocked = BLOCKING.waiting
    BLOCKING.release()
    await gates.close()

    assert (blocked > 0) is (how is Misbehaviour.BLOCK)

    assert (shop.passed, rewards.passed, told.failed) == (True, False, [])
    assert SECRET not in rewards.words


@EACH
async def test_a_lifecycle_policy_that_misbehaves_gives_no_answer_for_its_vertical_only(how: Misbehaviour) -> None:
    """What is no `PolicyAnswer`, raises or does not come back denies (`tests/unit/rollout/test_policies.py`)."""
    policy, sections = resolved(how, PolicyNames(lifecycle=("bad",)))
    policies = ChosenPolicies(policy, sections, unheard, PluginThreads(policy.host, unheard))
    threads = PolicyThreads(timedelta(seconds=0.05))
    ((_, shop),), ((_, rewards),) = policies.of_vertical(SHOP), policies.of_vertical(REWARDS)

    try:
        answer: object = await threads.ask(rewards, changed())
    except (RuntimeError, TimeoutError) as failed:
        answer = failed
    allowed = await threads.ask(shop, changed())

    assert not isinstance(answer, PolicyAnswer)
    assert allowed == PolicyAnswer()
