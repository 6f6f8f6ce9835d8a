"""Two operators at once, repeated requests, requests that cannot be used, and a store that is away."""

import asyncio
from typing import Any, Final

import grpc
from google.protobuf.timestamp_pb2 import Timestamp

from sidecar.policy.lifecycle import PolicyAnswer, StepFacts, Verdict
from subagents.lifecycle.v1 import lifecycle_pb2
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.enum_words import gate_lines, word
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.requests import Failure, failure_of
from tests.support.requirement import requirement


@requirement("PF1-T-21")
async def test_of_two_operators_at_once_one_wins_and_the_other_learns_the_present_revision() -> None:
    """Both read revision 3 and ask for different ramps; the loser reads again and goes on."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        seen = {"expected_revision": await bench.revision()}
        answers = await asyncio.gather(
            bench.step("SetRamp", ramp_basis_points=500, header=seen, sub="ada@example"),
            bench.step("SetRamp", ramp_basis_points=900, header=seen, sub="grace@example"),
            return_exceptions=True,
        )
        won = [each for each in answers if isinstance(each, lifecycle_pb2.StepResult)]
        lost = [each for each in answers if isinstance(each, grpc.aio.AioRpcError)]
        failure = await failure_of(rejecting(lost[0]))
        again = {"expected_revision": int(failure.metadata["revision"])}
        then = await bench.step("SetRamp", ramp_basis_points=1000, header=again, sub="grace@example")
        ramps = [
            row.rollout.after_basis_points for row in await bench.audit() if word(row.rollout, "kind") == "ramp_set"
        ]

    assert (len(won), len(lost), failure.code, failure.reason) == (1, 1, grpc.StatusCode.ABORTED, "REVISION_CONFLICT")
    assert int(failure.metadata["revision"]) == seen["expected_revision"] + 1
    assert ramps == [won[0].ramp_basis_points, then.ramp_basis_points]


async def rejecting(error: grpc.aio.AioRpcError) -> None:
    """Raise what was caught."""
    raise error


async def test_a_request_that_is_sent_again_is_answered_as_before_whatever_has_happened_since() -> None:
    """The step is taken once; the same id for something else is refused, for ever."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        head = {"request_id": "step-1", "expected_revision": await bench.revision()}
        first = await bench.step("SetRamp", ramp_basis_points=500, header=head)
        await bench.step("SetRamp", ramp_basis_points=200)
        again = await bench.step("SetRamp", ramp_basis_points=500, header=head)
        other = await bench.refused("SetRamp", ramp_basis_points=600, header=head)
        ramp = (await bench.status()).definitions[0].ramp_basis_points

    assert (first.repeated, again.repeated, again.revision, again.ramp_basis_points) == (
        False,
        True,
        first.revision,
        500,
    )
    assert (other.code, other.reason) == (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_REUSED")
    assert ramp == 200


async def test_a_refused_request_keeps_its_answer_and_a_new_attempt_takes_a_new_id() -> None:
    """A gate that has come round does not turn an old no into a yes."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        head = {"request_id": "step-1", "expected_revision": await bench.revision()}
        bench.gates.say["pre_ramp"] = Verdict.FAIL
        first = await bench.refused("SetRamp", ramp_basis_points=500, header=head)
        bench.gates.say["pre_ramp"] = Verdict.PASS
        asked = len(bench.gates.asked)
        again = await bench.refused("SetRamp", ramp_basis_points=500, header=head)
        not_asked = len(bench.gates.asked)
        fresh = await bench.step("SetRamp", ramp_basis_points=500)

    assert (first.reason, again.reason, again.metadata["repeated"]) == ("GATE_FAILED", "GATE_FAILED", "true")
    assert (not_asked, fresh.changed) == (asked, True)


async def test_a_dry_run_asks_the_gates_and_writes_nothing() -> None:
    """Neither rollout nor audit nor the request's id is used up."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        rows, head = len(await bench.audit()), {"request_id": "step-1", "dry_run": True}
        shown = await bench.step("SetRamp", ramp_basis_points=500, header=head)
        after = await bench.status(), len(await bench.audit())
        taken = await bench.step("SetRamp", ramp_basis_points=500, header={"request_id": "step-1"})

    assert (shown.ramp_basis_points, shown.changed, gate_lines(shown)) == (
        500,
        False,
        ["pre_ramp: pass: as scripted"],
    )
    assert (after[0].definitions[0].ramp_basis_points, after[1]) == (0, rows)
    assert taken.changed


class NotOnSundays:
    """Denies every step."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny."""
        return PolicyAnswer("it is a sunday")


async def test_a_policy_that_denies_holds_a_raise_and_neither_a_ramp_down_nor_a_way_back() -> None:
    """Its words reach the operator; what is safe asks nobody."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        bench.policies.append(("calendar", NotOnSundays()))
        denied = await bench.refused("SetRamp", ramp_basis_points=900)
        lowered = await bench.step("SetRamp", ramp_basis_points=100)
        down = await bench.step("RampDown", breach_id="floor-7", role="breaker")
        back = await bench.step("RollBack")

    assert (denied.reason, "calendar: it is a sunday" in denied.message) == ("POLICY_DENIED", True)
    assert (lowered.ramp_basis_points, down.ramp_basis_points) == (100, 0)
    assert back.state == pb.LIFECYCLE_STATE_ROLLBACK


async def test_flags_that_only_people_can_write_hold_the_step_until_they_have() -> None:
    """The answer says what to change; nothing is written before it is so."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        bench.flags.read_only = True
        waiting = await bench.step("SetRamp", ramp_basis_points=500)
        bench.flags.on.update(dict.fromkeys(bench.flags.on, True))
        taken = await bench.step("SetRamp", ramp_basis_points=500)

    assert (waiting.changed, len(waiting.edits), waiting.ramp_basis_points) == (False, 2, 0)
    assert (taken.changed, list(taken.edits), taken.ramp_basis_points) == (True, [], 500)


HOSTILE: Final[list[tuple[str, dict[str, Any], str]]] = [
    ("SetRamp", {"ramp_basis_points": -1}, "ramp_basis_points"),
    ("SetRamp", {"ramp_basis_points": 10_001}, "ramp_basis_points"),
    ("SetRamp", {"header": {"reason": "  "}}, "header.reason"),
    ("SetRamp", {"header": {"reason": "a\nforged line"}}, "header.reason"),
    ("SetRamp", {"header": {"reason": "x" * 1001}}, "header.reason"),
    ("SetRamp", {"header": {"request_id": ""}}, "header.request_id"),
    ("SetRamp", {"header": {"request_id": "two words"}}, "header.request_id"),
    ("SetRamp", {"header": {"slot": "../shop", "expected_revision": 1}}, "header.slot"),
    ("SetRamp", {"header": {"digest": "x" * 129}}, "header.digest"),
    ("SetRamp", {"header": {"expected_revision": -1}}, "header.expected_revision"),
    ("SetRamp", {"header": {"expected_revision": None}}, "header.expected_revision"),
    ("Activate", {"header": {"expected_revision": None}}, "header.expected_revision"),
    ("Transition", {"target_state": 0}, "target_state"),
    ("Transition", {"target_state": 99}, "target_state"),
    ("Transition", {"target_state": pb.LIFECYCLE_STATE_ROLLBACK}, "target_state"),
    ("RampDown", {"breach_id": ""}, "breach_id"),
    ("OverrideGate", {"gate": "", "ramp_basis_points": 5}, "gate"),
    ("OverrideGate", {"gate": "pre_ramp", "expires_at": Timestamp(seconds=2**60)}, "expires_at"),
    ("OverrideGate", {"gate": "pre_ramp", "expires_at": Timestamp(seconds=1)}, "expires_at"),
]


async def test_a_request_that_cannot_be_used_says_which_field() -> None:
    """Out of range, empty, forged lines, too long, an unknown state, an override for ever; nothing is written."""
    async with an_operated_sidecar() as bench:
        for method, fields, wrong in HOSTILE:
            failure = await bench.refused(method, **fields)
            assert failure.code == grpc.StatusCode.INVALID_ARGUMENT, (method, fields)
            assert wrong in failure.fields, (method, fields)
        rows = len(await bench.audit())

    assert rows == 1  # the definition was seen


async def test_a_name_that_nobody_has_is_not_found_and_steps_of_the_safe_kind_need_no_revision() -> None:
    """Kill, RampDown and RollBack go without; what is unknown is unknown to all."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        unknown = [await bench.refused(method, "nobody") for method in ("Kill", "RollBack", "Activate")]
        gone = await failure_of(bench.lifecycle.GetRollout(pb.GetRolloutRequest(slot="nobody"), metadata=bench.role()))
        down = await bench.step("RampDown", breach_id="floor-7", header={"expected_revision": None})
        killed = await bench.step("Kill", header={"expected_revision": None}, role="breaker")

    assert {each.reason for each in (*unknown, gone)} == {"UNKNOWN_DEFINITION"}
    assert (down.changed, killed.changed, killed.state) == (True, True, pb.LIFECYCLE_STATE_ROLLBACK)


async def away(bench: OperatedSidecar) -> list[Failure]:
    """Ask for things while the store is away."""
    head = {"expected_revision": 4}
    return [
        await bench.refused("SetRamp", ramp_basis_points=900, header=head),
        await failure_of(bench.lifecycle.ListRollouts(pb.ListRolloutsRequest(), metadata=bench.role())),
        await failure_of(bench.lifecycle.ExplainServing(pb.ExplainServingRequest(slot="shop"), metadata=bench.role())),
    ]


async def test_with_the_store_away_steps_fail_a_kill_holds_and_nobody_is_served_more() -> None:
    """The kill reaches this replica, says that it is not on record, and shows at the next bind."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=5000)
        before = await bench.offers("user-20")
        bench.store.away = True
        failures = await away(bench)
        during = await bench.offers("user-20")
        killed = await bench.step("Kill", header={"expected_revision": None}, role="breaker")
        after = await bench.offers("user-20")

    assert {each.reason for each in failures} == {"STORE_UNAVAILABLE"}
    assert (before, during, after) == (["ask_shop"], ["ask_shop"], [])
    assert "record" not in word(killed, "reached")
    assert "replica" in word(killed, "reached")
    assert killed.warnings


async def test_another_operator_who_sends_the_same_request_is_not_told_the_answer_of_the_first() -> None:
    """The same id and contents by bob: refused with a reason of its own, and ada still has her answer, yes or no."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        taken = {"request_id": "step-1", "expected_revision": await bench.revision()}
        await bench.step("SetRamp", ramp_basis_points=500, header=taken)
        bench.gates.say["pre_ramp"] = Verdict.FAIL
        failed = {"request_id": "step-2", "expected_revision": await bench.revision()}
        await bench.refused("SetRamp", ramp_basis_points=900, header=failed)
        rows = len(await bench.audit())

        yes = await bench.refused("SetRamp", ramp_basis_points=500, header=taken, sub="bob@example")
        no = await bench.refused("SetRamp", ramp_basis_points=900, header=failed, sub="bob@example")
        again = await bench.step("SetRamp", ramp_basis_points=500, header=taken)
        still = await bench.refused("SetRamp", ramp_basis_points=900, header=failed)
        rows_after = len(await bench.audit())

    assert (yes.code, yes.reason, no.reason) == (grpc.StatusCode.ALREADY_EXISTS, *["REQUEST_ID_REUSED"] * 2)
    assert "another operator" in yes.message
    assert (again.repeated, still.reason, rows_after) == (True, "GATE_FAILED", rows)


async def test_the_kill_of_another_operator_with_a_request_id_that_was_used_is_a_kill_of_its_own() -> None:
    """Nothing holds a kill up: bob is told how things stand now, and not what ada was answered."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        first = await bench.step("Kill", header={"request_id": "kill-1", "expected_revision": 0})
        again = await bench.step("Kill", header={"request_id": "kill-1", "expected_revision": 0})
        other = await bench.step("Kill", header={"request_id": "kill-1", "expected_revision": 0}, sub="bob@example")

    assert [(each.changed, each.repeated) for each in (first, again, other)] == [
        (True, False),
        (True, True),
        (False, False),
    ]
