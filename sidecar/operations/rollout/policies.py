"""Asks the lifecycle policies of a vertical about a step: any denial denies, an exception is one."""

from collections.abc import Callable, Sequence
from datetime import datetime

from sidecar.core.errors import PolicyDenied
from sidecar.core.identifiers import Slot, Vertical
from sidecar.core.rollout.events import Happening, RolloutEvent
from sidecar.core.rollout.facts import DefinitionFacts
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.ports import AuditQuery, RolloutRecorder, RolloutStore
from sidecar.operations.rollout.requests import Asked
from sidecar.policy.lifecycle import LifecyclePolicy, PolicyAnswer, Step, StepFacts, combined

LOOK_BACK = 500
"""Audit rows of a definition that approvals and the time of the last step are read from."""


class Policies:
    """The policies, by vertical.

    Args:
        of_vertical: named policies of a vertical, in the order of the settings.
    """

    def __init__(
        self,
        of_vertical: Callable[[Vertical], Sequence[tuple[str, LifecyclePolicy]]],
        store: RolloutStore,
        clock: Clock,
        recorder: RolloutRecorder,
    ) -> None:
        """Join the parts."""
        self._of_vertical = of_vertical
        self._store = store
        self._clock = clock
        self._recorder = recorder

    async def check(
        self, step: Step, slot: Slot, facts: DefinitionFacts, to: int, who: tuple[str, Asked]
    ) -> tuple[str, ...]:
        """Return the gates that policies add. Raises `PolicyDenied`, `StoreUnavailable`."""
        policies = self._of_vertical(facts.vertical)
        if not policies:
            return ()
        actor, _ = who
        approvals, last_raised = await self._history(slot, facts, to, actor)
        asked = StepFacts(
            step=step,
            slot=slot,
            definition_id=facts.definition_id,
            digest=facts.digest,
            vertical=facts.vertical,
            state=facts.state,
            from_ramp=facts.ramp,
            to_ramp=to,
            actor=actor,
            approvals=approvals,
            last_step_at=last_raised,
            now=self._clock.now(),
        )
        answer = combined([self._ask(name, policy, asked) for name, policy in policies])
        if answer.denied:
            raise PolicyDenied(answer.denied, metadata={"step": step})
        return answer.more_gates

    def _ask(self, name: str, policy: LifecyclePolicy, asked: StepFacts) -> PolicyAnswer:
        try:
            answer: object = policy.check(asked)
        except BaseException as error:  # noqa: BLE001  the border to a plugin: whatever it raises denies
            self._recorder.anomaly("policy_broken", f"{name} raised {type(error).__name__}")
            return PolicyAnswer(f"policy {name} is broken; it has to be mended or taken out of the settings")
        if not isinstance(answer, PolicyAnswer):
            self._recorder.anomaly("policy_broken", f"{name} answered a {type(answer).__name__}")
            return PolicyAnswer(f"policy {name} answered nonsense; it has to be mended or taken out of the settings")
        return PolicyAnswer(f"{name}: {answer.denied}" if answer.denied else "", answer.more_gates)

    async def _history(
        self, slot: Slot, facts: DefinitionFacts, to: int, actor: str
    ) -> tuple[tuple[str, ...], datetime | None]:
        """Return who asked for exactly this step since the last one was taken, and when the ramp was last raised."""
        rows = await self._store.audit(AuditQuery(slot=slot, definition_id=facts.definition_id, limit=LOOK_BACK))
        approvals: list[str] = []
        last_raised: datetime | None = None
        for row in rows:
            event = row.body
            if not isinstance(event, RolloutEvent) or event.digest != facts.digest:
                continue
            if event.what is Happening.RAMP_SET:
                approvals.clear()
                last_raised = event.at if event.after > event.before else last_raised
            elif event.what is Happening.REFUSED and (event.before, event.after) == (facts.ramp, to):
                approvals.append(event.actor)
        return tuple(dict.fromkeys([*approvals, actor])), last_raised
