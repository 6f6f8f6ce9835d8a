"""Calls the lifecycle policies of a vertical about a step. One denial denies the step, and so does a policy that fails.

The platform's own rules come first, whatever the settings say. A step in the safe direction calls no policy: lowering a
ramp must not wait for a broken policy.

Approvals are read from the audit, where they cannot be forged: each earlier request for exactly this step that a policy
denied, or that a gate held or failed, was recorded with its authenticated subject. An approval counts until the
definition changes in any way; a policy may let it expire earlier. Dry runs and repeated requests record no approval. A
new request of the same subject renews that subject's approval. Source: DESIGN section 9.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from sidecar.core.errors import GateFailed, GateHeld, PolicyDenied
from sidecar.core.identifiers import Slot, Vertical
from sidecar.core.rollout.events import RolloutEvent, RolloutEventKind
from sidecar.core.rollout.facts import DefinitionFacts, RolloutMode
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.audit.audit_log import NOT_TAKEN, pages_of
from sidecar.operations.rollout.definition_lookup import DefinitionMatch
from sidecar.operations.rollout.requests import Configure, OverrideGate, StepRequest
from sidecar.operations.rollout.store.ports import AuditQuery, AuditRow, RolloutRecorder, RolloutStore
from sidecar.policy.lifecycle import Approval, LifecyclePolicy, PolicyAnswer, Step, StepFacts, combine_answers
from sidecar.policy.platform import PLATFORM, PlatformRules

LONGEST_REASON: Final = 300
"""The most characters of a policy's reason that an operator is shown."""
GATE_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,59}\Z")

APPROVES: Final = tuple(f"{error.reason}:" for error in (PolicyDenied, GateFailed, GateHeld))
"""How the `detail` of a refusal begins that counts as an approval by its requester. A refusal by the rules does not."""
MORE_FOR_USERS: Final = frozenset({RolloutEventKind.ACTIVATED, RolloutEventKind.REVISED})

NamedPolicies = Sequence[tuple[str, LifecyclePolicy]]
"""In the order of the settings, without the platform's."""
AsksPolicy = Callable[[LifecyclePolicy, StepFacts], Awaitable[object]]
"""Calls one policy; raises its exceptions, or `TimeoutError`."""


async def asked_at_once(policy: LifecyclePolicy, facts: StepFacts) -> object:
    """Call a policy directly, without a time limit: only for policies that are known to return."""
    return policy.check(facts)


async def policy_answers(
    of_vertical: NamedPolicies, facts: StepFacts, ask: AsksPolicy, on_broken: Callable[[str, str], None]
) -> dict[str, PolicyAnswer]:
    """Return the answers of the platform's policy and of a vertical's policies about a step, by the policy's name.

    Args:
        of_vertical: policies of the vertical.
        facts: about the step.
        ask: asks one policy.
        on_broken: receives a kind of anomaly and a text for each policy that fails.
    """
    # Created here and not configured: no setting can leave the platform's rules out.
    answers = {PLATFORM: PlatformRules().check(facts)}
    # All are called, even after a denial: the operator learns every reason in one attempt.
    for name, policy in of_vertical:
        answers[name] = await _answer(name, policy, facts, ask, on_broken)
    return answers


async def _answer(
    name: str, policy: LifecyclePolicy, facts: StepFacts, ask: AsksPolicy, on_broken: Callable[[str, str], None]
) -> PolicyAnswer:
    """Ask one policy; anything but a valid answer denies the step."""

    def deny(what: str) -> PolicyAnswer:
        """Report the policy as broken, and return a denial that says so."""
        on_broken("policy_broken", f"{name} {what}")
        return PolicyAnswer(f"policy {name} {what}; fix it, or remove it from the settings")

    try:
        answer = await ask(policy, facts)
    except Exception as error:  # noqa: BLE001  the border to a plugin: whatever it raises denies
        return deny(f"raised {type(error).__name__}")
    # Named, because `except BaseException` would also swallow `CancelledError`, with which the caller is cancelled.
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        return deny(f"raised {type(error).__name__}")
    if not isinstance(answer, PolicyAnswer):
        return deny(f"answered a {type(answer).__name__}")
    # Checked at run time, because plugins are not type-checked.
    denied: object = answer.denied
    gates: object = answer.more_gates
    if not isinstance(denied, str) or not isinstance(gates, tuple) or not all(map(_is_gate, gates)):
        return deny("gave an answer whose reason or gates are invalid")
    # On one line and cut: the reason goes into the audit and to operators' terminals.
    return PolicyAnswer(f"{name}: {' '.join(denied.split())[:LONGEST_REASON]}" if denied else "", gates)


class Policies:
    """The policies, by vertical.

    Args:
        of_vertical: the named policies of a vertical, in the order of the settings, without the platform's.
        store: its audit has the earlier requests.
        clock: the time that policies receive.
        recorder: receives broken policies.
        ask: calls one policy; by default without a limit.
    """

    def __init__(
        self,
        of_vertical: Callable[[Vertical], NamedPolicies],
        store: RolloutStore,
        clock: Clock,
        recorder: RolloutRecorder,
        ask: AsksPolicy = asked_at_once,
    ) -> None:
        self._of_vertical = of_vertical
        self._store = store
        self._clock = clock
        self._recorder = recorder
        self._ask_one = ask

    async def check(
        self, step: Step, found: DefinitionMatch, to: int, asked: StepRequest, actor: str
    ) -> tuple[str, ...]:
        """Return the gates that policies demand; an override, which concerns a gate itself, needs none.

        Raises:
            PolicyDenied, StoreUnavailable.
        """
        # A lower ramp is the safe direction. It must work while a policy, or the store of approvals, does not.
        if step is Step.SET_RAMP and to <= found.facts.ramp:
            return ()
        policies = self._of_vertical(found.facts.vertical)
        facts_of_step = await self._facts(step, found, to, asked, actor)
        answers = await policy_answers(policies, facts_of_step, self._ask_one, self._recorder.anomaly)
        combined = combine_answers(list(answers.values()))
        if combined.denied:
            raise PolicyDenied(combined.denied, metadata={"step": step})
        return () if step is Step.OVERRIDE_GATE else combined.more_gates

    async def _facts(self, step: Step, found: DefinitionMatch, to: int, asked: StepRequest, actor: str) -> StepFacts:
        (rollout, facts), now = found, self._clock.now()
        rows = await self._rows(rollout.slot, facts)
        # The subject of this request is added below, with the present time: a request renews its own approval.
        others = {each.subject: each for each in approvals_of(rows, facts, asked.sought) if each.subject != actor}
        return StepFacts(
            step=step,
            slot=rollout.slot,
            definition_id=facts.definition_id,
            digest=facts.digest,
            vertical=facts.vertical,
            state=facts.state,
            from_ramp=facts.ramp,
            to_ramp=to,
            actor=actor,
            actor_key=asked.actor_key,
            gate=asked.gate if isinstance(asked, OverrideGate) else "",
            from_mode=rollout.mode,
            to_mode=asked.mode if isinstance(asked, Configure) else rollout.mode,
            approvals=(*others.values(), Approval(actor, now, asked.actor_key)),
            last_step_at=last_step_of(rows, facts),
            now=now,
        )

    async def _rows(self, slot: Slot, facts: DefinitionFacts) -> Sequence[AuditRow]:
        """Return the audit rows of a definition id, oldest first.

        Of a subject's refused requests for one step only the latest is returned: it renews the approval.
        """
        taken: list[AuditRow] = []
        latest: dict[tuple[str, ...], AuditRow] = {}
        async for page in pages_of(self._store, AuditQuery(slot=slot, definition_id=facts.definition_id)):
            for row in page:
                event = row.body
                if isinstance(event, RolloutEvent) and event.what in NOT_TAKEN:
                    approves = str(event.detail.startswith(APPROVES))
                    # Bounded by subjects and steps: a subject that repeats a refused request a thousand times does not
                    # fill the memory.
                    latest[event.digest, event.actor, event.sought, f"{event.before}", approves] = row
                else:
                    taken.append(row)
        return sorted((*taken, *latest.values()), key=lambda row: row.number)


def approvals_of(rows: Sequence[AuditRow], facts: DefinitionFacts, sought: str) -> tuple[Approval, ...]:
    """Return the subjects who requested exactly this step and were held back since the definition last changed.

    Args:
        rows: of the definition's id, oldest first.
        facts: the present state of the definition, where the step begins.
        sought: the requested change.
    """
    latest: dict[str, Approval] = {}
    for row in rows:
        event = row.body
        if event.digest != facts.digest:
            continue
        if not isinstance(event, RolloutEvent) or event.what not in NOT_TAKEN:
            # A step that was taken changes the definition, so earlier approvals no longer refer to its present state.
            latest.clear()
        elif (event.before, event.sought) == (facts.ramp, sought) and event.detail.startswith(APPROVES) and event.actor:
            # Removed first, so that the renewed approval is the newest in the order of the dictionary.
            latest.pop(event.actor, None)
            latest[event.actor] = Approval(event.actor, event.at, event.actor_key)
    return tuple(latest.values())


def last_step_of(rows: Sequence[AuditRow], facts: DefinitionFacts) -> datetime | None:
    """Return when a definition was last given to more users, or got new content; None: never.

    A minor revision counts: its content is new to every user.
    """
    for row in reversed(rows):
        event = row.body
        if not isinstance(event, RolloutEvent) or event.digest != facts.digest:
            continue
        raised = event.what is RolloutEventKind.RAMP_SET and event.after > event.before
        if raised or event.what in MORE_FOR_USERS or event.mode == RolloutMode.FULL:
            return event.at
    return None


def _is_gate(name: object) -> bool:
    return isinstance(name, str) and GATE_NAME.match(name) is not None


__all__: Sequence[str] = (
    "PLATFORM",
    "AsksPolicy",
    "NamedPolicies",
    "Policies",
    "approvals_of",
    "asked_at_once",
    "last_step_of",
    "policy_answers",
)
