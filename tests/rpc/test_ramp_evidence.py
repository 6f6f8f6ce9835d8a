"""The watchdog of ramps at a real sidecar: evidence from the record, a ramp-down by the breaker, and nothing else."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sidecar.cli.evaluation.ramp_watchdog import WatchOptions, look
from sidecar.cli.evaluation.watchdog_metrics import WatchdogMetrics
from sidecar.core.evaluation.ramp_verdict import Rules, Verdict
from sidecar.core.rollout.bucketing import in_ramp
from subagents.lifecycle.v1 import evidence_pb2 as pb
from subagents.lifecycle.v1 import reading_pb2
from tests.rpc.test_scores import recorded
from tests.support.fake_runner import answers, raises
from tests.support.operator_desk import Desk
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.operators_outside import BEGAN
from tests.support.requests import failure_of
from tests.support.requirement import requirement

OLD, NEW = gated("shop", enabled_via_flag=None), gated("shop2", slot="shop")
RAMP = 5000
RAMPED_DOWN = reading_pb2.ROLLOUT_EVENT_KIND_RAMPED_DOWN
FEW = Rules(users=5, tell=1.0)


class Minutes:
    """A wall clock that a test moves; durations are real."""

    def __init__(self) -> None:
        self.passed = timedelta(minutes=1)

    def now(self) -> datetime:
        """Return when it is."""
        return BEGAN + self.passed

    def monotonic(self) -> float:
        """Return seconds of the loop."""
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def ramping() -> AsyncIterator[tuple[OperatedSidecar, Minutes]]:
    """Serve `shop` to all users, and ramp `shop2` over it to 50 %."""
    minutes = Minutes()
    async with an_operated_sidecar(OLD, unflagged_at_once=True, clock=minutes) as bench:
        await bench.configured(OLD, NEW)
        await bench.promoted(RAMP, "shop2")
        yield bench, minutes


async def users(bench: OperatedSidecar, minutes: Minutes, count: int, *, fails: bool, scored: bool = False) -> None:
    """Let users come, one a minute; inside the ramp every call fails, or none."""
    asked = reading_pb2.ExplainServingRequest(slot="shop", principal="anyone")
    salt = (await bench.lifecycle.ExplainServing(asked, metadata=bench.role())).salt
    for number in range(count):
        minutes.passed += timedelta(minutes=1)
        user, turn = f"user-{number}", f"turn-{number}"
        inside = in_ramp(salt, user, RAMP)
        bench.sidecar.runner.use("shop", raises(ValueError("x")) if fails and inside else answers(usage=(100, 20)))
        bound = await bench.sidecar.bind(turn_id=turn, principal=user)
        await bench.sidecar.dispatch(bound, "ask_shop", dispatch_id=f"dispatch-{number}")
        await bench.sidecar.end(bound, narration="Here you are.")
        if scored:
            about = {"turn_id": turn, "dispatch_id": f"dispatch-{number}", "principal": user}
            await recorded(bench.sidecar, score_id="s", value=0.25 if inside else 1.0, **about)


async def evidence(bench: OperatedSidecar, role: str = "breaker", **asked: Any) -> pb.GetRampEvidenceResponse:
    """Ask as a watchdog does."""
    request = pb.GetRampEvidenceRequest(**asked)
    return await bench.lifecycle.GetRampEvidence(request, timeout=10, metadata=bench.role(role))


def total(ramp: pb.RampEvidence, arm: str, count: str) -> int:
    """Return one number of an arm over all blocks."""
    return sum(getattr(getattr(block, arm), count) for block in ramp.blocks)


@requirement("PF1-D-64")
async def test_evidence_is_counted_from_the_record_by_arm_and_once_for_each_user() -> None:
    """Calls, failures, latency, tokens and scores; a second call of a user, and a slot without a ramp, show nothing."""
    async with ramping() as (bench, minutes):
        await users(bench, minutes, 12, fails=True, scored=True)
        (ramp,) = (await evidence(bench)).ramps
        again = await bench.sidecar.bind(turn_id="turn-again", principal="user-1")
        await bench.sidecar.dispatch(again, "ask_shop", dispatch_id="dispatch-again")
        (after,) = (await evidence(bench, slot="shop")).ramps
        unknown = await failure_of(evidence(bench, slot="rewards"))

    assert (ramp.active_definition_id, ramp.target_definition_id, ramp.ramp_basis_points) == ("shop2", "shop", RAMP)
    assert (ramp.facts_behind, ramp.unreadable_turns, ramp.is_full) == (0, 0, False)
    inside, outside = total(ramp, "active", "call_count"), total(ramp, "target", "call_count")
    assert inside + outside == 12
    assert 0 < inside < 12
    failures = [(each.reason, each.count) for block in ramp.blocks for each in block.active.failures]
    assert (sum(count for _, count in failures), {reason for reason, _ in failures}) == (inside, {"RUNNER_FAILED"})
    assert [each for block in ramp.blocks for each in block.target.failures] == []
    assert (total(ramp, "active", "user_count"), total(ramp, "target", "user_count")) == (inside, outside)
    assert sum(sum(block.target.tokens) for block in ramp.blocks) == outside
    assert sum(sum(block.active.latency) for block in ramp.blocks) == inside
    lost = [each.total for block in ramp.blocks for each in block.active.scores]
    assert lost == [0.25] * inside
    assert total(after, "active", "call_count") + total(after, "target", "call_count") == 12
    assert unknown.reason == "UNKNOWN_DEFINITION"


async def test_a_breach_is_ramped_down_once_with_its_evidence_in_the_audit_and_nothing_is_raised_again() -> None:
    """With a token that may do nothing else. The next look finds no ramp; an operator has to acknowledge first."""
    async with ramping() as (bench, minutes):
        await users(bench, minutes, 24, fails=True)
        desk = Desk(bench)
        desk.role = "breaker"
        planned, _, _ = await desk.say(look, WatchOptions(rules=FEW, dry_run=True))
        unmoved = (await bench.status()).definitions
        metrics = WatchdogMetrics()
        noted = partial(look, metrics=metrics)
        code, out, errors = await desk.say(noted, WatchOptions(rules=FEW))
        breach = dict(metrics.verdicts)
        later, then, _ = await desk.say(noted, WatchOptions(rules=FEW))
        downs = [each for each in await bench.audit() if each.rollout.kind == RAMPED_DOWN]
        raised = await bench.refused("SetRamp", "shop2", ramp_basis_points=RAMP)
        (down,) = [each for each in (await bench.status()).definitions if each.definition_id == "shop2"]

    assert planned == 1
    assert [each.ramp_basis_points for each in unmoved if each.definition_id == "shop2"] == [RAMP]
    assert (code, errors) == (1, "")
    assert "breach, ramped down to 0 %" in out
    assert (later, then) == (0, "no ramp between 0 % and 100 %\n")
    assert (breach, metrics.verdicts, metrics.rounds["judged"]) == ({"shop": Verdict.BREACH}, {}, 2)
    assert metrics.ramp_downs == {"ramped_down": 1, "would_ramp_down": 0, "refused": 0}
    assert down.ramp_basis_points == 0
    assert down.breach.reason.startswith("the watchdog at 50 %: failures: 100.0% of")
    assert "ramp-watchdog-" in down.breach.breach_id
    assert ["e-value" in each.reason for each in downs] == [True]
    assert raised.reason == "TRANSITION_REFUSED"


async def test_without_a_breach_the_next_step_is_proposed_and_not_taken() -> None:
    """As a command for an operator; for programs, with every measure."""
    async with ramping() as (bench, minutes):
        await users(bench, minutes, 24, fails=False)
        desk = Desk(bench)
        desk.role = "breaker"
        code, out, _ = await desk.say(look, WatchOptions(rules=FEW))
        patient, waiting, _ = await desk.say(look, WatchOptions())
        _, told = await desk.object(look, WatchOptions(rules=FEW))
        ramps = {each.definition_id: each.ramp_basis_points for each in (await bench.status()).definitions}

    assert code == 0
    assert "an operator may raise it to 100 %: sidecar subagent ramp shop2 100 --reason" in out
    assert (patient, "100 are needed" in waiting) == (0, True)
    (ramp,) = told["ramps"]
    assert (ramp["verdict"], ramp["next_ramp_basis_points"], ramp["done"]) == ("propose", 10_000, "")
    assert ramp["measures"][0]["name"] == "failures"
    assert ramps["shop2"] == RAMP


async def test_what_cannot_be_read_is_no_proposal() -> None:
    """A store that is away, or a role token that does not hold: said on the error stream, with the exit code 2."""
    async with ramping() as (bench, minutes):
        await users(bench, minutes, 6, fails=False)
        desk = Desk(bench)
        metrics = WatchdogMetrics()
        noted = partial(look, metrics=metrics)
        code, out, errors = await desk.say(noted, WatchOptions(rules=FEW), token="rt1.forged")
        gone, said, why = await desk.say(look, WatchOptions(rules=FEW), targets=("unix:/nowhere",))

    assert (code, out, "ROLE_TOKEN_INVALID" in errors) == (2, "", True)
    assert (metrics.last_round, metrics.rounds) == (None, {"judged": 0, "failed": 1})
    assert (gone, said, "no sidecar answers" in why) == (2, "", True)
