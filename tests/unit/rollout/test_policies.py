"""Policies are asked with what is on record; whatever they do wrong denies, and nothing they say widens anything."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.errors import GateHeld, PolicyDenied
from sidecar.core.flag_states import FlagSnapshot
from sidecar.core.identifiers import DefinitionId
from sidecar.core.rollout.events import RolloutEvent
from sidecar.core.rollout.facts import DefinitionFacts, FlagPair, RolloutMode
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout.definition_lookup import DefinitionMatch
from sidecar.operations.rollout.requests import (
    AcknowledgeBreach,
    Activate,
    Configure,
    OverrideGate,
    RampDown,
    SetRamp,
    StepAnswer,
    StepRequest,
    Transition,
)
from sidecar.operations.rollout.steps.gate_checks import GateEvaluator, GateRules
from sidecar.operations.rollout.steps.policy_checks import Policies
from sidecar.operations.rollout.steps.step_flags import FlagSwitching
from sidecar.operations.rollout.steps.take_step import ExecuteStep
from sidecar.operations.rollout.store.ports import AuditQuery, RolloutWrite
from sidecar.operations.rollout.stored_answers import AuditContext
from sidecar.policy.lifecycle import LifecyclePolicy, PolicyAnswer, Step, StepFacts
from tests.support.stopping import NothingToProve
from tests.unit.rollout.building import NOW, SHOP, facts, flags, rollout
from tests.unit.rollout.test_gatekeeping import Gate, Told, answer_to

SHOP_ID = DefinitionId("shop")


@dataclass
class Clock:
    """Moved by hand."""

    time: datetime = NOW

    def now(self) -> datetime:
        """Return the date."""
        return self.time

    def monotonic(self) -> float:
        """Return seconds."""
        return self.time.timestamp()


class NoFlags:
    """Every flag is as it should be."""

    async def switch(self, name: str, on: bool, by: str) -> None:
        """Switch nothing."""

    def edit_for(self, name: str, on: bool) -> str:
        """Nobody has to do anything."""
        return ""


@dataclass
class Keeps:
    """A policy that keeps what it was asked and answers by a function."""

    work: Callable[[StepFacts], Any] = lambda facts: PolicyAnswer()
    asked: list[StepFacts] = field(default_factory=list)

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Answer."""
        self.asked.append(facts)
        answer: PolicyAnswer = self.work(facts)
        return answer


class TwoSubjects(Keeps):
    """Needs two."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Count."""
        self.asked.append(facts)
        return PolicyAnswer("" if len(facts.approvals) >= 2 else "somebody else has to ask")


@dataclass
class Bench:
    """Steps over a store in memory."""

    policies: Sequence[tuple[str, LifecyclePolicy]]
    clock: Clock = field(default_factory=Clock)
    gate: Gate = field(default_factory=lambda: Gate(answer_to))
    told: Told = field(default_factory=Told)

    def __post_init__(self) -> None:
        """Join the parts."""
        self.store = MemoryRollouts(self.clock)
        self._requests = 0
        self._take = ExecuteStep(
            store=self.store,
            clock=self.clock,
            audit_context=lambda: AuditContext("5", ()),
            proofs=cast("Any", NothingToProve()),
            policies=Policies(lambda vertical: self.policies, self.store, self.clock, self.told),
            gates=GateEvaluator(GateRules(), lambda vertical, gate: self.gate, self.clock, self.told),
            flags=FlagSwitching(writer_of=lambda vertical: NoFlags(), snapshot=_all_off, shown=dict),
            by_hand=cast("Any", None),
            decommissioning=cast("Any", None),
        )

    async def begin(self, one: DefinitionFacts, active: str | None = "shop") -> None:
        """Put a definition on record."""
        await self.store.write(RolloutWrite(slot=SHOP, expected_revision=0, rollout=rollout(one, active=active)))

    async def ask(self, kind: type[StepRequest], actor: str = "ada", **fields: Any) -> StepAnswer:
        """Ask for a step, under a new request id."""
        self._requests += 1
        self.clock.time += timedelta(seconds=1)
        fields = {"request_id": f"r-{self._requests}", "actor_role": "operator"} | fields
        return await self._take(kind(definition_id=SHOP_ID, reason="because", **fields), actor)

    async def denied(self, kind: type[StepRequest], actor: str = "ada", **fields: Any) -> str:
        """Ask for a step that a policy denies; return why."""
        with pytest.raises(PolicyDenied) as refused:
            await self.ask(kind, actor, **fields)
        return refused.value.message


def _all_off() -> FlagSnapshot:
    return flags()


async def stepping(*policies: LifecyclePolicy, **started: Any) -> Bench:
    """Return a bench whose shop is at 5 %, with these policies."""
    bench = Bench([(f"policy-{number}", policy) for number, policy in enumerate(policies)])
    await bench.begin(facts("shop", **{"ramp": 500, **started}))
    return bench


async def test_a_second_subject_lets_exactly_the_same_step_pass() -> None:
    """The first one's request was denied and kept."""
    bench = await stepping(TwoSubjects())

    assert await bench.denied(SetRamp, "ada", to=2500) == "policy-0: somebody else has to ask"
    answer = await bench.ask(SetRamp, "bob", to=2500)

    assert answer.ramp == 2500


async def test_one_subject_asking_again_and_again_never_counts_twice() -> None:
    """Neither under new request ids nor under the old one; another's dry run is no request either."""
    bench = await stepping(TwoSubjects())

    for _ in range(3):
        await bench.denied(SetRamp, "ada", to=2500)
    await bench.denied(SetRamp, "ada", to=2500, request_id="r-1")
    assert (await bench.ask(SetRamp, "bob", to=2500, dry_run=True)).changed is False

    assert await bench.denied(SetRamp, "ada", to=2500) == "policy-0: somebody else has to ask"


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (SetRamp, {"to": 2499}),
        (OverrideGate, {"gate": "pre_ramp", "to": 2500, "expires_at": NOW + timedelta(days=1)}),
    ],
)
async def test_another_step_is_no_approval_of_this_one(kind: type[StepRequest], fields: dict[str, Any]) -> None:
    """However alike they are."""
    bench = await stepping(TwoSubjects())

    await bench.denied(kind, "bob", **fields)

    await bench.denied(SetRamp, "ada", to=2500)


async def test_an_override_is_approved_by_gate_and_step() -> None:
    """The second subject's request is the one that is taken, with its own expiry."""
    bench = await stepping(policy := TwoSubjects())
    asked = {"to": 2500, "gate": "pre_ramp"}

    await bench.denied(OverrideGate, "ada", **asked, expires_at=NOW + timedelta(days=1))
    answer = await bench.ask(OverrideGate, "bob", **asked, expires_at=NOW + timedelta(days=2))

    assert answer.changed
    assert policy.asked[-1].gate == "pre_ramp"
    assert bench.gate.asked == []


async def test_approvals_are_over_once_the_definition_has_changed() -> None:
    """Whoever asked before did not know what it would be now."""
    bench = await stepping(TwoSubjects())

    await bench.denied(SetRamp, "bob", to=2500)
    await bench.ask(RampDown, "watchdog", breach_id="b-1")
    await bench.ask(AcknowledgeBreach, "eve", breach_id="b-1")

    await bench.denied(SetRamp, "ada", to=2500)


async def test_what_the_rules_refuse_nobody_stands_behind() -> None:
    """Asked while a breach was open, refused by the platform, and no approval for later."""
    bench = await stepping(TwoSubjects())
    await bench.ask(RampDown, "watchdog", breach_id="b-1")
    with pytest.raises(Exception, match="acknowledge it before the next step"):
        await bench.ask(SetRamp, "bob", to=2500)
    await bench.ask(AcknowledgeBreach, "eve", breach_id="b-1")

    await bench.denied(SetRamp, "ada", to=2500)


async def test_subjects_stand_by_a_step_that_a_gate_held() -> None:
    """They had asked for it, and nothing has changed."""
    bench = await stepping(TwoSubjects())
    right, bench.gate = bench.gate, Gate(lambda question: None)
    await bench.denied(SetRamp, "ada", to=2500)
    with pytest.raises(GateHeld):
        await bench.ask(SetRamp, "bob", to=2500)
    bench.gate = right

    assert (await bench.ask(SetRamp, "ada", to=2500)).ramp == 2500


async def test_a_policy_is_told_who_asked_when_and_when_users_last_got_more() -> None:
    """The one who asks now comes last; a lowered ramp is not more."""
    bench = await stepping(policy := TwoSubjects())
    for actor in ("ada", "bob", "ada"):
        await bench.denied(SetRamp, actor, to=2500) if actor == "ada" else await bench.ask(SetRamp, actor, to=2500)
        if actor == "bob":
            raised_at = bench.clock.time
            await bench.ask(SetRamp, actor, to=500)

    asked = policy.asked[-1]
    assert [(each.subject, each.at) for each in asked.approvals] == [("ada", bench.clock.time)]
    assert (asked.last_step_at, asked.now) == (raised_at, bench.clock.time)


async def test_a_policy_is_told_the_mode_before_and_after_the_step() -> None:
    """Only `configure` changes it."""
    bench = await stepping(policy := Keeps())

    await bench.ask(SetRamp, to=2500)
    await bench.ask(Configure, mode=RolloutMode.FULL)
    await bench.ask(Configure, mode=RolloutMode.FULL, curve=(500, 10_000))

    modes = [(each.step, each.from_mode, each.to_mode) for each in policy.asked]
    assert modes == [
        (Step.SET_RAMP, RolloutMode.EXPERIMENT, RolloutMode.EXPERIMENT),
        (Step.CONFIGURE, RolloutMode.EXPERIMENT, RolloutMode.FULL),
        (Step.CONFIGURE, RolloutMode.FULL, RolloutMode.FULL),
    ]


async def test_every_row_on_record_is_read_however_many_there_are() -> None:
    """The newest ones decide, and they come last."""
    bench = await stepping(policy := Keeps(lambda asked: PolicyAnswer("no")))

    await bench.denied(SetRamp, "ada", to=2500)
    kept = (await bench.store.audit(AuditQuery(slot=SHOP)))[-1].body
    assert isinstance(kept, RolloutEvent)
    others = tuple(msgspec.structs.replace(kept, actor=f"subject-{number}") for number in range(1100))
    await bench.store.write(RolloutWrite(slot=SHOP, expected_revision=1, events=others))

    await bench.denied(SetRamp, "bob", to=2500)

    assert len(policy.asked[-1].approvals) == 1102


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda facts: 1 / 0, "policy policy-0 raised ZeroDivisionError"),
        (lambda facts: None, "policy policy-0 answered a NoneType"),
        (lambda facts: True, "policy policy-0 answered a bool"),
        (lambda facts: PolicyAnswer("", ("Legal Department",)), "policy policy-0 gave an answer whose reason or gates"),
        (lambda facts: PolicyAnswer(None), "policy policy-0 gave an answer whose reason or gates"),  # type: ignore[arg-type]  # the defect
    ],
)
async def test_a_broken_policy_denies_and_is_told_of(work: Callable[[StepFacts], Any], said: str) -> None:
    """An exception is a denial, and so is nonsense."""
    bench = await stepping(Keeps(work))

    assert said in await bench.denied(SetRamp, to=2500)
    assert [kind for kind, _ in bench.told.anomalies] == ["policy_broken"]
    assert bench.gate.asked == []


async def test_no_policy_is_asked_whether_a_ramp_may_be_lowered() -> None:
    """A broken one cannot hold the safe direction back."""
    bench = await stepping(Keeps(lambda facts: 1 / 0))

    assert (await bench.ask(SetRamp, to=100)).ramp == 100
    assert (await bench.ask(RampDown, breach_id="b-1")).ramp == 0


async def test_policies_only_ever_add() -> None:
    """One denial denies; gates add up, after the platform's, and none is lost or asked twice."""
    more = Keeps(lambda facts: PolicyAnswer("", ("legal", "pre_ramp")))
    bench = await stepping(more, Keeps())
    denying = await stepping(more, Keeps(lambda facts: PolicyAnswer("not now")), Keeps())

    await bench.ask(SetRamp, to=2500)

    assert [question.gate for question in bench.gate.asked] == ["pre_ramp", "legal"]
    assert await denying.denied(SetRamp, to=2500) == "policy-1: not now"
    assert denying.gate.asked == []


async def test_without_any_policy_the_platforms_gates_are_needed_all_the_same() -> None:
    """Promotion, a raise, and the whole."""
    bench = Bench(())
    await bench.begin(facts("shop", LifecycleState.TEST, flags=FlagPair.NAMED), active=None)

    await bench.ask(Transition, step=Step.PROMOTE)
    for to in (500, 10_000):
        await bench.ask(SetRamp, to=to)

    assert [question.gate for question in bench.gate.asked] == ["pre_merge", "pre_ramp", "pre_full"]


async def test_nobody_steps_without_a_name() -> None:
    """The platform's rules are asked whatever the settings say."""
    bench = await stepping()

    assert "authenticated subject" in await bench.denied(SetRamp, "", to=2500)


async def test_a_policy_may_ask_for_a_gate_where_the_platform_asks_for_none() -> None:
    """Activating, for example."""
    bench = Bench([("policy", Keeps(lambda facts: PolicyAnswer("", ("incident_closed",))))])
    await bench.begin(facts("shop", ramp=500), active=None)

    await bench.ask(Activate)

    assert [question.gate for question in bench.gate.asked] == ["incident_closed"]


async def test_a_policy_that_hangs_denies_once_its_guard_gives_it_up() -> None:
    """The guard raises `TimeoutError`."""
    told, store = Told(), MemoryRollouts(Clock())

    async def given_up(_policy: LifecyclePolicy, _facts: StepFacts) -> object:
        raise TimeoutError

    policies = Policies(lambda vertical: [("slow", Keeps())], store, Clock(), told, given_up)
    asked = SetRamp(definition_id=SHOP_ID, reason="because", request_id="r-1", to=2500)

    shop = facts("shop", ramp=500)
    with pytest.raises(PolicyDenied, match="policy slow raised TimeoutError"):
        await asyncio.wait_for(
            policies.check(Step.SET_RAMP, DefinitionMatch(rollout(shop), shop), 2500, asked, "ada"), 5
        )
