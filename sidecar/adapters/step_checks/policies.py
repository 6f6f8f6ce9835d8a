"""The border around lifecycle policies: each is asked in a thread of its own, with a deadline.

A policy is ordinary code that may loop for ever; in the event loop it would stop every turn of the process. A thread
that does not come back is left alone, and its policy denies until it does.
"""

import asyncio
import contextlib
import threading
from datetime import timedelta
from typing import Final

from sidecar.policy.lifecycle import LifecyclePolicy, PolicyAnswer, StepFacts

DEADLINE: Final = timedelta(seconds=1)


class BrokenPolicy:
    """Stands where a policy could not be made: every step of its verticals is denied.

    Args:
        problem: why, for operators.
    """

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny."""
        return PolicyAnswer(f"the policy could not be made, so {facts.step} is denied: {self._problem}")


class PolicyThreads:
    """Asks policies in threads, at most one for each policy.

    Args:
        deadline: of one answer.
    """

    def __init__(self, deadline: timedelta = DEADLINE) -> None:
        self._deadline = deadline.total_seconds()
        self._turns: dict[int, tuple[LifecyclePolicy, asyncio.Lock]] = {}

    async def ask(self, policy: LifecyclePolicy, facts: StepFacts) -> object:
        """Return the policy's answer, whatever it is; raise what it raises.

        Raises:
            TimeoutError: it does not answer, or has not come back from an earlier question.
        """
        _, turn = self._turns.setdefault(id(policy), (policy, asyncio.Lock()))  # kept, so that no id comes twice
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
            except BaseException as error:  # noqa: BLE001  the border to a plugin, and the end of a thread
                failure = error if isinstance(error, Exception) and not isinstance(error, StopIteration) else None
                answer = None if failure else error
            with contextlib.suppress(RuntimeError):  # the process has gone on without it, and its loop is closed
                loop.call_soon_threadsafe(settle, answer, failure)

        async with asyncio.timeout(self._deadline):
            await turn.acquire()
            try:
                threading.Thread(target=work, name="lifecycle-policy", daemon=True).start()
            except BaseException:
                turn.release()
                raise
            return await answered
