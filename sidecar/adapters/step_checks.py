"""Creates the gate clients and lifecycle policies that the settings select, and protects the process from their faults.

A gate is an external check before a step of a rollout; a policy can deny a step. If one of them cannot be created or
hangs, the steps that need it are refused with the reason. Other steps, and all turns, continue.

A policy is code that may loop forever. On the event loop it would stop every turn of the process, so it runs in a
thread. A thread that does not return in time is abandoned. Its policy denies every step until the thread returns.
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
"""Maximum number of abandoned calls of one client that still run. At this number it is not called again until one of
them has ended, so that a client that hangs does not accumulate tasks."""
CLOSE_SECONDS: Final = 2.0
"""The time limit for closing a client."""


class BrokenGate:
    """Takes the place of a gate client that could not be created. No step passes its gates.

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
    """Calls a gate client so that the caller can abandon the call, even if the client ignores cancellation.

    Args:
        name: the name of the client, for operators.
        client: the client, which is closed together with this object.
    """

    def __init__(self, name: str, client: GateClient) -> None:
        self._name = name
        self._client = client
        self._abandoned: list[asyncio.Task[GateAnswer]] = []

    async def ask(self, question: GateQuestion) -> GateAnswer:
        """Ask the gate. If this call is cancelled, cancel the client's call, too, but do not wait for its end.

        Raises:
            GateUnavailable: too many abandoned calls still run, or the client ended this call by a cancellation.
        """
        # Calls that have ended are removed only when the next question needs their number.
        self._abandoned = [task for task in self._abandoned if not task.done()]
        if len(self._abandoned) >= MOST_LEFT:
            raise GateUnavailable(f"gate client {self._name} does not come back from {MOST_LEFT} earlier questions")
        task = asyncio.get_running_loop().create_task(self._ask_client(question))
        try:
            # `wait` and not `await task`: the latter would cancel the task and then wait until it obeys.
            await asyncio.wait((task,))
        finally:
            if not task.done():
                task.cancel()
                task.add_done_callback(_retrieve_exception)
                self._abandoned.append(task)
        if task.cancelled():
            raise GateUnavailable(f"gate client {self._name} gave the question up by itself")
        return task.result()

    async def close(self) -> None:
        """Close the client within `CLOSE_SECONDS`. Its errors are ignored."""
        task = asyncio.get_running_loop().create_task(self._close_client())
        await asyncio.wait((task,), timeout=CLOSE_SECONDS)
        task.cancel()
        task.add_done_callback(_retrieve_exception)

    async def _ask_client(self, question: GateQuestion) -> GateAnswer:
        try:
            return await self._client.ask(question)
        # asyncio would raise these exceptions of a task in the event loop, which would end the process.
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            raise GateUnavailable(f"gate client {self._name} raised {type(error).__name__}") from None

    async def _close_client(self) -> None:
        try:
            await self._client.close()
        except (SystemExit, KeyboardInterrupt, GeneratorExit):
            return


def _retrieve_exception(task: "asyncio.Task[GateAnswer] | asyncio.Task[None]") -> None:
    """Retrieve the exception of an abandoned task. Otherwise asyncio logs that it was never retrieved."""
    if not task.cancelled():
        task.exception()


DEADLINE: Final = timedelta(seconds=1)
"""The time limit for an answer of a policy. A policy only computes with its arguments, which takes milliseconds."""


class BrokenPolicy:
    """Takes the place of a policy that could not be created. It denies every step of the verticals that selected it.

    Args:
        problem: the cause, for operators.
    """

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny the step, with the cause."""
        return PolicyAnswer(f"the policy could not be made, so {facts.step} is denied: {self._problem}")


class PolicyThreads:
    """Calls each policy in a thread, with at most one thread for each policy at a time.

    Args:
        deadline: the time limit of one answer, including the wait for an earlier call of the same policy.
    """

    def __init__(self, deadline: timedelta = DEADLINE) -> None:
        self._deadline = deadline.total_seconds()
        self._locks: dict[int, tuple[LifecyclePolicy, asyncio.Lock]] = {}

    async def ask(self, policy: LifecyclePolicy, facts: StepFacts) -> object:
        """Return the result of `policy.check`, which may be any object. An exception of the policy is raised.

        Raises:
            TimeoutError: the policy does not answer in time, or has not returned from an earlier call.
        """
        # By id, because a policy need not be hashable. The reference in the value keeps the id from being used again.
        _, lock = self._locks.setdefault(id(policy), (policy, asyncio.Lock()))
        loop = asyncio.get_running_loop()
        result: asyncio.Future[object] = loop.create_future()

        def settle(answer: object, error: BaseException | None) -> None:
            # Called on the event loop, because a lock of asyncio must not be released in another thread.
            lock.release()
            # The future was cancelled, because the caller's deadline has passed.
            if result.done():
                return
            if error is None:
                result.set_result(answer)
            else:
                result.set_exception(error)

        def work() -> None:
            answer: object = None
            failure: BaseException | None = None
            try:
                answer = policy.check(facts)
            except BaseException as error:  # noqa: BLE001  boundary to a plugin, and the end of a thread
                # A future cannot hold `StopIteration`, and e.g. `SystemExit` would end the process. Such an exception
                # becomes the answer, which no caller accepts.
                failure = error if isinstance(error, Exception) and not isinstance(error, StopIteration) else None
                answer = None if failure else error
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process did not wait for this call
                loop.call_soon_threadsafe(settle, answer, failure)

        async with asyncio.timeout(self._deadline):
            await lock.acquire()
            try:
                threading.Thread(target=work, name="lifecycle-policy", daemon=True).start()
            except BaseException:
                # Without a thread, `settle` is never called, and the policy would be locked for ever.
                lock.release()
                raise
            return await result


Sections = Mapping[str, Mapping[str, Any]]
"""The settings of each plugin or instance, by its name."""
OnProblem = Callable[[str, str], None]
"""Receives a problem of a plugin that could not be created: the kind of anomaly, and the details."""


class ChosenGates:
    """The gate clients in use. A vertical with its own selection has its own clients.

    Args:
        policy: the selected plugins of each vertical.
        sections: the section `[gates]`.
        on_problem: receives each client that could not be created.
        making: creates the clients.
    """

    def __init__(self, policy: PolicyMap, sections: Sections, on_problem: OnProblem, making: Making = IN_PLACE) -> None:
        self._sections = sections
        self._on_problem = on_problem
        self._making = making
        self._all: list[GateClient] = []
        self._default = self._clients_of(policy.default)
        self._verticals = {vertical: self._clients_of(plugins) for vertical, plugins in policy.verticals.items()}

    def client_for(self, vertical: Vertical, gate: str) -> GateClient | None:
        """Return the client of a gate for a vertical; None: the settings select none."""
        gates = self._verticals.get(vertical, self._default)
        return gates.get(gate) or gates.get(ANY_GATE)

    async def close(self) -> None:
        """Close all clients, concurrently."""
        await asyncio.gather(*(client.close() for client in self._all))

    def _clients_of(self, plugins: VerticalPlugins) -> Mapping[str, GateClient]:
        # One client for each name: several gates may name the same one.
        by_name = {spec.name: self._create(spec) for spec in plugins.gates.values()}
        self._all.extend(by_name.values())
        return {gate: by_name[spec.name] for gate, spec in plugins.gates.items()}

    def _create(self, spec: GateClientSpec) -> GateClient:
        try:
            section = self._sections.get(spec.name, {})
            return GuardedGate(spec.name, self._making.made(spec, lambda: make_gate_client(spec, section)))
        except PluginProblem as problem:
            self._on_problem("gate_client_broken", f"{spec.name}: {problem}")
            return BrokenGate(problem.what)


class ChosenPolicies:
    """The lifecycle policies in use. A vertical with its own selection has its own policies.

    Args:
        policy: the selected plugins of each vertical.
        sections: the section `[lifecycle]`.
        on_problem: receives each policy that could not be created.
        making: creates the policies.
    """

    def __init__(self, policy: PolicyMap, sections: Sections, on_problem: OnProblem, making: Making = IN_PLACE) -> None:
        self._sections = sections
        self._on_problem = on_problem
        self._making = making
        self._default = self._policies_of(policy.default)
        self._verticals = {vertical: self._policies_of(plugins) for vertical, plugins in policy.verticals.items()}

    def of_vertical(self, vertical: Vertical) -> Sequence[tuple[str, LifecyclePolicy]]:
        """Return name and policy of each policy that a vertical selects, in order, without the policy `platform`."""
        return self._verticals.get(vertical, self._default)

    def _policies_of(self, plugins: VerticalPlugins) -> Sequence[tuple[str, LifecyclePolicy]]:
        return tuple((spec.name, self._create(spec)) for spec in plugins.lifecycle)

    def _create(self, spec: LifecyclePolicySpec) -> LifecyclePolicy:
        try:
            section = self._sections.get(spec.name, {})
            return self._making.made(spec, lambda: make_lifecycle_policy(spec, section))
        except PluginProblem as problem:
            self._on_problem("policy_broken", f"{spec.name}: {problem}")
            return BrokenPolicy(problem.what)
