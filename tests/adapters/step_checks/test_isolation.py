"""One vertical's broken gate client or policy affects only its own sub-agents."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest

from sidecar.adapters.step_checks import MOST_LEFT, ChosenGates, ChosenPolicies, GuardedGate, PolicyThreads
from sidecar.core.identifiers import Vertical
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.lifecycle import GateAnswer, GateClient, GateQuestion, GateUnavailable, PolicyAnswer, StepFacts
from sidecar.policy.loading import load_plugins
from sidecar.policy.selection import PolicyMap, PolicyNames, PolicySettings, resolve_policy
from sidecar.policy.specs import GateClientSpec, LifecyclePolicySpec
from sidecar_conformance.gate_client import QUESTION
from sidecar_conformance.policy_bench import changed
from tests.unit.policy.offered import PLATFORM, Offering
from tests.unit.rollout.test_gatekeeping import Gate, answer_to

SHOP, REWARDS = Vertical("shop"), Vertical("rewards")
SOON = timedelta(milliseconds=50)


class Allows:
    """Allows everything."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Allow."""
        return PolicyAnswer()


ENDS_PROCESSES = [kind("no licence") for kind in (SystemExit, KeyboardInterrupt, GeneratorExit)]
"""What a factory should not raise."""


class Checks:
    """A plugin with a right and a broken one of each kind."""

    def __init__(self, error: BaseException = ENDS_PROCESSES[0]) -> None:
        self.made: list[Gate] = []
        self._error = error

    def _cannot_be_made(self, _settings: Mapping[str, Any]) -> Any:
        raise self._error

    def _gate(self, _settings: Mapping[str, Any]) -> GateClient:
        self.made.append(Gate(answer_to))
        return self.made[-1]

    @hookimpl
    def sidecar_gate_clients(self) -> Sequence[GateClientSpec]:
        """Offer them."""
        factories: dict[str, Callable[[Mapping[str, Any]], Any]] = {"right": self._gate, "broken": self._cannot_be_made}
        return [
            GateClientSpec(name=name, contract="gate-client/1", summary=name, factory=factory)
            for name, factory in factories.items()
        ]

    @hookimpl
    def sidecar_lifecycle_policies(self) -> Sequence[LifecyclePolicySpec]:
        """Offer them."""
        factories: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "right": lambda settings: Allows(),
            "broken": self._cannot_be_made,
        }
        return [
            LifecyclePolicySpec(name=name, contract="lifecycle-policy/1", summary=name, factory=factory)
            for name, factory in factories.items()
        ]


def resolved(checks: Checks, default: PolicyNames, rewards: PolicyNames) -> PolicyMap:
    """Resolve settings with one vertical that differs."""
    host = load_plugins([Offering(*PLATFORM), checks], PluginSelection(), offers=())
    return resolve_policy(PolicySettings(default, {REWARDS: rewards}), host)


@pytest.mark.parametrize("error", ENDS_PROCESSES, ids=lambda error: type(error).__name__)
async def test_a_client_that_cannot_be_made_holds_the_gates_of_its_own_vertical_only(error: BaseException) -> None:
    """The start goes on, somebody is told, and the reason is in the answer."""
    told: list[tuple[str, str]] = []
    policy = resolved(Checks(error), PolicyNames(gates="right"), PolicyNames(gates={"pre_merge": "broken"}))
    gates = ChosenGates(policy, {}, lambda what, why: told.append((what, why)))

    shops, merge, ramp = (
        gates.client_for(vertical, gate)
        for vertical, gate in ((SHOP, "pre_merge"), (REWARDS, "pre_merge"), (REWARDS, "pre_ramp"))
    )
    assert shops is not None
    assert merge is not None
    assert ramp is not None
    assert (await shops.ask(QUESTION)).verdict == "pass"
    assert (await ramp.ask(QUESTION)).verdict == "pass"
    with pytest.raises(GateUnavailable, match=rf"could not be made: .*{type(error).__name__}: no licence"):
        await merge.ask(QUESTION)
    assert [(kind, detail.partition(":")[0]) for kind, detail in told] == [("gate_client_broken", "broken")]
    await gates.close()


@pytest.mark.parametrize("error", ENDS_PROCESSES, ids=lambda error: type(error).__name__)
async def test_a_policy_that_cannot_be_made_denies_the_steps_of_its_own_vertical_only(error: BaseException) -> None:
    """With the reason."""
    told: list[tuple[str, str]] = []
    policy = resolved(Checks(error), PolicyNames(lifecycle=("right",)), PolicyNames(lifecycle=("platform", "broken")))
    policies = ChosenPolicies(policy, {}, lambda what, why: told.append((what, why)))

    ((_, shops),) = policies.of_vertical(SHOP)
    ((name, rewards),) = policies.of_vertical(REWARDS)

    assert shops.check(changed()) == PolicyAnswer()
    assert name == "broken"
    denied = f"so set_ramp is denied: making it failed with {type(error).__name__}: no licence"
    assert denied in rewards.check(changed()).denied
    assert [(kind, detail.partition(":")[0]) for kind, detail in told] == [("policy_broken", "broken")]


def test_a_vertical_with_settings_of_its_own_shares_no_client_with_another() -> None:
    """What one of them does to its connections is its own affair."""
    checks = Checks()
    policy = resolved(checks, PolicyNames(gates="right"), PolicyNames(flags="memory"))

    ChosenGates(policy, {}, lambda what, why: None)

    assert len(checks.made) == 2


class Clings:
    """Takes cancellations for nothing until it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Wait on."""
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        return answer_to(question)

    async def close(self) -> None:
        """Hold nothing."""


async def test_a_client_that_clings_to_its_question_is_given_up_and_soon_not_asked_any_more() -> None:
    """Until it has come back."""
    client = Clings()
    guarded = GuardedGate("clings", client)

    for _ in range(MOST_LEFT):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await guarded.ask(QUESTION)
    with pytest.raises(GateUnavailable, match="does not come back from 8 earlier questions"):
        await guarded.ask(QUESTION)

    client.let_go.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (await guarded.ask(QUESTION)).verdict == "pass"


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError()])
async def test_a_client_that_raises_what_ends_a_task_holds(error: BaseException) -> None:
    """It neither ends the process nor passes for a cancelled request."""

    def work(_question: GateQuestion) -> Any:
        raise error

    with pytest.raises(GateUnavailable, match="gate client odd"):
        await GuardedGate("odd", Gate(work)).ask(QUESTION)


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """An event that is set when the test is over, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


class Waits(Allows):
    """Comes back when it is let go."""

    def __init__(self, released: threading.Event) -> None:
        self._released = released

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Wait."""
        self._released.wait(20)
        return super().check(facts)


async def test_a_policy_that_hangs_is_given_up_while_the_others_answer(released: threading.Event) -> None:
    """The event loop goes on; the policy is asked again once it has come back."""
    threads, hanging = PolicyThreads(SOON), Waits(released)

    for _ in range(2):
        with pytest.raises(TimeoutError):
            await threads.ask(hanging, changed())
        assert await threads.ask(Allows(), changed()) == PolicyAnswer()

    released.set()
    patient = PolicyThreads(timedelta(seconds=5))
    assert await patient.ask(hanging, changed()) == PolicyAnswer()


async def test_a_policy_that_hangs_has_one_thread_however_often_it_is_asked(released: threading.Event) -> None:
    """Else a broken policy would fill the process with them."""
    threads, hanging = PolicyThreads(SOON), Waits(released)

    for _ in range(4):
        with pytest.raises(TimeoutError):
            await threads.ask(hanging, changed())

    assert [thread.name for thread in threading.enumerate()].count("lifecycle-policy") == 1


async def test_whatever_a_policy_raises_in_its_thread_comes_back() -> None:
    """As an error if it is one, else as an answer that is none."""

    class Raises:
        def __init__(self, error: BaseException) -> None:
            self._error = error

        def check(self, facts: StepFacts) -> PolicyAnswer:
            """Raise."""
            raise self._error

    threads = PolicyThreads()
    with pytest.raises(KeyError):
        await threads.ask(Raises(KeyError("x")), changed())
    assert isinstance(await threads.ask(Raises(SystemExit(1)), changed()), SystemExit)
