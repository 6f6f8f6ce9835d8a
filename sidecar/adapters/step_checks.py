"""Creates the gate clients and lifecycle policies that the settings select, and protects the process from each.

A gate is an external check before a step of a rollout; a policy can deny a step. If one of them cannot be created, or
hangs, the steps of the verticals that selected it are not taken, with the reason. Everything else continues.

A policy is ordinary code that may loop forever; on the event loop it would stop every turn of the process. It therefore
runs in a thread. A thread that does not return is abandoned, and its policy denies until the thread returns.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, Never

from sidecar.core.identifiers import Vertical
from sidecar.policy.factory import IN_PLACE, Making, make_gate_client, make_lifecycle_policy
from sidecar.policy.lifecycle import (
    GateAnswer,
    GateClient,
    GateQuestion,
    GateUnavailable,
    LifecyclePolicy,
    PolicyAnswer,
    StepFacts,
)
from sidecar.policy.problems import PluginProblem
from sidecar.policy.selection import ANY_GATE, PolicyMap, VerticalPlugins
from sidecar.policy.specs import GateClientSpec, LifecyclePolicySpec

MOST_LEFT: Final = 8
"""The most abandoned questions that may still run in a client; beyond that it is not called until one has ended."""
CLOSE_SECONDS: Final = 2.0


class BrokenGate:
    """Replaces a gate client that could not be created: its gates let no step pass.

    Args:
        problem: the cause, for operators.
    """

    def __init__(self, problem: str) -> None:
        self._problem = problem

    async def ask(self, question: GateQuestion) -> Never:
        """Raise `GateUnavailable`."""
        raise GateUnavailable(f"the client of {question.gate} could not be made: {self._problem}")

    async def close(self) -> None:
        """Do nothing."""


class GuardedGate:
    """Calls a client so that the call can be abandoned.

    Args:
        name: of the client, for operators.
        client: closed together with this object.
    """

    def __init__(self, name: str, client: GateClient) -> None:
        self._name = name
        self._client = client
        self._left: list[asyncio.Task[GateAnswer]] = []

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Ask; if cancelled, cancel the client's work and do not wait for it.

        Raises:
            GateUnavailable: too many abandoned questions still run, or the client has abandoned this one itself.
        """
        # Here and not in a callback: a client without questions needs no count.
        self._left = [task for task in self._left if not task.done()]
        if len(self._left) >= MOST_LEFT:
            raise GateUnavailable(f"gate client {self._name} does not come back from {MOST_LEFT} earlier questions")
        task = asyncio.get_running_loop().create_task(self._asked(question))
        try:
            await asyncio.wait((task,))
        finally:
            if not task.done():
                task.cancel()
                task.add_done_callback(_heard)
                self._left.append(task)
        if task.cancelled():
            raise GateUnavailable(f"gate client {self._name} gave the question up by itself")
        return task.result()

    async def close(self) -> None:
        """Close the client, within a time limit; errors are ignored."""
        task = asyncio.get_running_loop().create_task(self._closed())
        await asyncio.wait((task,), timeout=CLOSE_SECONDS)
        task.cancel()
        task.add_done_callback(_heard)

    async def _asked(self, question: GateQuestion) -> GateAnswer:
        try:
            return await self._client.ask(question)
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:  # in a task, each would end the process
            raise GateUnavailable(f"gate client {self._name} raised {type(error).__name__}") from None

    async def _closed(self) -> None:
        try:
            await self._client.close()
        except (SystemExit, KeyboardInterrupt, GeneratorExit):
            return


def _heard(task: "asyncio.Task[GateAnswer] | asyncio.Task[None]") -> None:
    """Retrieve the exception of an abandoned task, so that the event loop does not report it."""
    if not task.cancelled():
        task.exception()


DEADLINE: Final = timedelta(seconds=1)
"""The time limit for an answer of a policy. A policy computes on facts that it gets, so it answers in milliseconds."""


class BrokenPolicy:
    """Replaces a policy that could not be created: every step of its verticals is denied.

    Args:
        problem: the cause, for operators.
    """

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny."""
        return PolicyAnswer(f"the policy could not be made, so {facts.step} is denied: {self._problem}")


class PolicyThreads:
    """Calls policies in threads, at most one thread for each policy.

    Args:
        deadline: of one answer.
    """

    def __init__(self, deadline: timedelta = DEADLINE) -> None:
        self._deadline = deadline.total_seconds()
        self._turns: dict[int, tuple[LifecyclePolicy, asyncio.Lock]] = {}

    async def ask(self, policy: LifecyclePolicy, facts: StepFacts) -> object:
        """Return the policy's answer unchecked; raise its exception.

        Raises:
            TimeoutError: it does not answer, or has not returned from an earlier question.
        """
        _, turn = self._turns.setdefault(
            id(policy), (policy, asyncio.Lock())
        )  # kept alive, so that its id stays unique
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[object] = loop.create_future()

        def settle(answer: object, error: BaseException | None) -> None:
            turn.release()
            if answered.done():
                return
            if error is None:
                answered.set_result(answer)
            else:
                answered.set_exception(error)

        def work() -> None:
            answer: object = None
            failure: BaseException | None = None
            try:
                answer = policy.check(facts)
            except BaseException as error:  # noqa: BLE001  boundary to a plugin, and the end of a thread
                failure = error if isinstance(error, Exception) and not isinstance(error, StopIteration) else None
                answer = None if failure else error
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process did not wait for this call
                loop.call_soon_threadsafe(settle, answer, failure)

        async with asyncio.timeout(self._deadline):
            await turn.acquire()
            try:
                threading.Thread(target=work, name="lifecycle-policy", daemon=True).start()
            except BaseException:
                turn.release()
                raise
            return await answered


Sections = Mapping[str, Mapping[str, Any]]
"""Settings by plugin name."""
OnProblem = Callable[[str, str], None]
"""Receives objects that could not be created: the kind of anomaly, and the details."""


class ChosenGates:
    """The gate clients in use. A vertical with its own settings has its own clients.

    Args:
        policy: the plugins of each vertical.
        sections: `[gates]`.
        on_problem: receives each client that could not be created.
        making: makes them.
    """

    def __init__(self, policy: PolicyMap, sections: Sections, on_problem: OnProblem, making: Making = IN_PLACE) -> None:
        self._sections = sections
        self._on_problem = on_problem
        self._making = making
        self._all: list[GateClient] = []
        self._default = self._made_for(policy.default)
        self._verticals = {vertical: self._made_for(plugins) for vertical, plugins in policy.verticals.items()}

    def client_for(self, vertical: Vertical, gate: str) -> GateClient | None:
        """Return the client of a gate; None: there is none."""
        gates = self._verticals.get(vertical, self._default)
        return gates.get(gate) or gates.get(ANY_GATE)

    async def close(self) -> None:
        """Close all clients, concurrently."""
        await asyncio.gather(*(client.close() for client in self._all))

    def _made_for(self, plugins: VerticalPlugins) -> Mapping[str, GateClient]:
        by_name = {spec.name: self._made(spec) for spec in plugins.gates.values()}
        self._all.extend(by_name.values())
        return {gate: by_name[spec.name] for gate, spec in plugins.gates.items()}

    def _made(self, spec: GateClientSpec) -> GateClient:
        try:
            section = self._sections.get(spec.name, {})
            return GuardedGate(spec.name, self._making.made(spec, lambda: make_gate_client(spec, section)))
        except PluginProblem as problem:
            self._on_problem("gate_client_broken", f"{spec.name}: {problem}")
            return BrokenGate(problem.what)


class ChosenPolicies:
    """The lifecycle policies in use. A vertical with its own settings has its own policies.

    Args:
        policy: the plugins of each vertical.
        sections: `[lifecycle]`.
        on_problem: receives each policy that could not be created.
        making: makes them.
    """

    def __init__(self, policy: PolicyMap, sections: Sections, on_problem: OnProblem, making: Making = IN_PLACE) -> None:
        self._sections = sections
        self._on_problem = on_problem
        self._making = making
        self._default = self._made_for(policy.default)
        self._verticals = {vertical: self._made_for(plugins) for vertical, plugins in policy.verticals.items()}

    def of_vertical(self, vertical: Vertical) -> Sequence[tuple[str, LifecyclePolicy]]:
        """Return the named policies of a vertical, in order, without the platform's."""
        return self._verticals.get(vertical, self._default)

    def _made_for(self, plugins: VerticalPlugins) -> Sequence[tuple[str, LifecyclePolicy]]:
        return tuple((spec.name, self._made(spec)) for spec in plugins.lifecycle)

    def _made(self, spec: LifecyclePolicySpec) -> LifecyclePolicy:
        try:
            section = self._sections.get(spec.name, {})
            return self._making.made(spec, lambda: make_lifecycle_policy(spec, section))
        except PluginProblem as problem:
            self._on_problem("policy_broken", f"{spec.name}: {problem}")
            return BrokenPolicy(problem.what)
