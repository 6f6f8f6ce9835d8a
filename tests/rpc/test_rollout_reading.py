"""Seeing how rollouts stand: lists, why a user gets what, now and in the past, previews, the audit as it grows."""

import asyncio
from datetime import timedelta
from typing import Any, Final

from sidecar.core.identifiers import Slot
from sidecar.core.rollout.events import RolloutEventKind
from sidecar.core.rollout.step import Actor, event_about
from sidecar.operations.rollout.store.ports import RolloutWrite
from sidecar.rpc.translate.fields import timestamp
from subagents.dispatch.v1 import surface_pb2
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.builders import a_card
from tests.support.enum_words import word
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requests import failure_of
from tests.support.requirement import requirement

INSIDE: Final = "user-20"
"""In bucket 131 of the salt `shop`."""
OUTSIDE: Final = "user-0"
"""In bucket 6576."""


async def why(bench: OperatedSidecar, principal: str, **fields: Any) -> tuple[str, str]:
    """Ask why; return the first verdict and its words."""
    request = pb.ExplainServingRequest(slot="shop", principal=principal, **fields)
    answer = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role("viewer"))
    name = surface_pb2.CandidateVerdict.Name(answer.verdicts[0].verdict)
    return name.removeprefix("CANDIDATE_VERDICT_"), answer.verdicts[0].explanation


async def test_the_list_shows_every_slot_its_flags_how_fresh_they_are_and_who_is_bound_to_it() -> None:
    """A gated and an ungated sub-agent; two turns open, one of which is offered both."""
    async with an_operated_sidecar(gated("shop"), a_card("rewards"), unflagged_at_once=True) as bench:
        await bench.promoted(ramp=500)
        await bench.offers(INSIDE)
        await bench.offers(OUTSIDE)
        answer = await bench.lifecycle.ListRollouts(pb.ListRolloutsRequest(), timeout=10, metadata=bench.role("viewer"))
        bench.flags.away = True
        stale = await bench.lifecycle.ListRollouts(pb.ListRolloutsRequest(), timeout=10, metadata=bench.role("viewer"))

    rewards, shop = answer.slots
    assert (rewards.slot, rewards.definitions[0].ramp_basis_points, rewards.definitions[0].pinned_turns) == (
        "rewards",
        10_000,
        2,
    )
    assert (shop.slot, shop.definitions[0].active, shop.definitions[0].pinned_turns) == ("shop", True, 1)
    assert [each.value for each in shop.definitions[0].flags] == [pb.FLAG_VALUE_ON] * 2
    assert [(each.name, each.fresh) for each in answer.backends] == [("memory", True)]
    assert [each.value for each in stale.slots[1].definitions[0].flags] == [pb.FLAG_VALUE_UNREACHABLE] * 2
    assert (stale.backends[0].fresh, stale.backends[0].HasField("age")) == (False, False)


@requirement("PF1-D-66")
async def test_an_operator_learns_why_a_user_is_served_and_another_is_not() -> None:
    """Key, salt and bucket as binds use them; a user without a key is outside every ramp."""
    async with an_operated_sidecar() as bench:
        fresh = await why(bench, INSIDE)
        await bench.promoted(ramp=500)
        found = [await why(bench, who) for who in (INSIDE, OUTSIDE, "")]
        control = await why(bench, INSIDE, experiment_arm="control")
        bench.flags.away = True
        stale = await why(bench, INSIDE)
        bench.flags.away = False
        bench.flags.on["ai_assistant_subagent_shop"] = False
        off = await why(bench, INSIDE)
        await bench.step("Kill")
        killed = await why(bench, INSIDE)

    assert fresh == ("STATE", "it is in dev; only promote is served")
    assert found == [
        ("CHOSEN", "bucket 131 is inside the ramp of 5 %"),
        ("RAMP", "bucket 6576 is outside the ramp of 5 %"),
        ("RAMP", "a user without an id is outside the ramp of 5 %"),
    ]
    assert [each[0] for each in (control, stale, off, killed)] == ["COHORT", "FLAG_STALE", "FLAG_OFF", "KILLED"]


async def test_the_past_is_explained_from_the_audit() -> None:
    """Each hour one step; afterwards every hour is explained as a bind decided then, with what is assumed."""
    hours, expected = [], []
    async with an_operated_sidecar(gated("shop"), gated("shop2", slot="shop")) as bench:

        async def hour_passes() -> None:
            answer = await bench.lifecycle.ExplainServing(
                pb.ExplainServingRequest(slot="shop", principal=INSIDE), metadata=bench.role()
            )
            expected.append((answer.served_digest, [each.verdict for each in answer.verdicts]))
            hours.append(bench.clock.now())
            bench.clock.time += timedelta(hours=1)

        await hour_passes()
        await bench.promoted()
        await hour_passes()
        for ramp in (100, 200, 10_000):
            await bench.step("SetRamp", ramp_basis_points=ramp)
            await hour_passes()
        await bench.promoted(ramp=100, definition_id="shop2")
        await hour_passes()
        await bench.step("RollBack", "shop2")
        await hour_passes()
        await bench.step("RampDown", breach_id="floor-7")
        await hour_passes()
        await bench.step("Kill")
        await hour_passes()
        found = []
        for hour in hours:
            request = pb.ExplainServingRequest(slot="shop", principal=INSIDE, at=timestamp(hour))
            answer = await bench.lifecycle.ExplainServing(request, metadata=bench.role())
            found.append((answer.served_digest, [each.verdict for each in answer.verdicts]))
            assert answer.assumptions

    assert found == expected
    assert len({served for served, _ in found}) == 2  # nobody at times, `shop` at times


async def test_a_preview_counts_who_would_come_and_go_and_names_nobody() -> None:
    """Ten users were seen; a raise takes the sub-agent from none of them."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=3000)
        for number in (0, 1, 2, 15, 20, 35, 37, 20, 20):
            await bench.offers(f"user-{number}")

        async def preview(to: int) -> pb.PreviewRampResponse:
            request = pb.PreviewRampRequest(slot="shop", ramp_basis_points=to)
            return await bench.lifecycle.PreviewRamp(request, metadata=bench.role("viewer"))

        up, down, whole = await preview(5000), await preview(100), await preview(10_000)
        gone = await failure_of(
            bench.lifecycle.PreviewRamp(pb.PreviewRampRequest(slot="shop", digest="none"), metadata=bench.role())
        )

    assert (up.known, up.inside, up.joining, up.leaving, list(up.gates)) == (7, 5, 1, 0, ["pre_ramp"])
    assert (down.joining, down.leaving, list(down.gates)) == (0, 4, [])
    assert (whole.joining, list(whole.gates)) == (2, ["pre_full"])
    assert gone.reason == "UNKNOWN_DEFINITION"


async def test_a_preview_is_of_the_definition_that_is_named_and_says_which() -> None:
    """A replacement that nobody has yet, by its id; what it is to replace, by its own; a slot means the active one."""
    async with an_operated_sidecar(gated("shop1", slot="shop"), gated("shop2", slot="shop")) as bench:
        await bench.promoted(3000, "shop1")
        await bench.promoted(0, "shop2")

        async def preview(name: str) -> tuple[str, int, list[str]]:
            request = pb.PreviewRampRequest(slot=name, ramp_basis_points=5000)
            answer = await bench.lifecycle.PreviewRamp(request, metadata=bench.role("viewer"))
            digests = {each.digest: each.definition_id for each in (await bench.status()).definitions}
            assert digests[answer.digest] == answer.definition_id
            return answer.definition_id, answer.from_basis_points, list(answer.gates)

        asked = [await preview(name) for name in ("shop2", "shop1", "shop")]

    assert asked == [("shop2", 0, ["pre_ramp"]), ("shop1", 3000, ["pre_ramp"]), ("shop1", 3000, ["pre_ramp"])]


async def test_who_watches_the_audit_hears_of_each_row_once_and_goes_on_where_it_stopped() -> None:
    """First what is there, then what happens; another watcher begins after the newest number it has seen."""
    async with an_operated_sidecar() as bench:
        stream = bench.lifecycle.WatchAudit(pb.WatchAuditRequest(), timeout=10, metadata=bench.role("viewer"))
        first = await anext(aiter(stream))
        await bench.step("Transition", target_state=pb.LIFECYCLE_STATE_TEST)
        async with asyncio.timeout(5):
            second = await anext(aiter(stream))
        stream.cancel()
        seen = pb.WatchAuditRequest(after_sequence=first.rows[-1].sequence, no_follow=True)
        again = [each async for each in bench.lifecycle.WatchAudit(seen, timeout=10, metadata=bench.role())]
        other = pb.WatchAuditRequest(slot="rewards", no_follow=True)
        nothing = [each async for each in bench.lifecycle.WatchAudit(other, timeout=10, metadata=bench.role())]

    moved = second.rows[0].transition
    assert [word(row.rollout, "kind") for row in first.rows] == ["definition_seen"]
    assert (moved.source_state, moved.target_state) == (pb.LIFECYCLE_STATE_DEV, pb.LIFECYCLE_STATE_TEST)
    assert (again, nothing) == ([second], [])


async def test_the_audit_is_read_however_large_its_rows_are() -> None:
    """A transition names every flag that is on: a page of them is more than one message may be."""
    async with an_operated_sidecar(gated("shop")) as bench:
        rollout = await bench.store.rollout(Slot("shop"))
        assert rollout is not None
        (facts,) = rollout.definitions.values()
        by = Actor(actor="ada", reason="r", request_id="r-1", at=bench.clock.now())
        long = event_about(rollout, facts, RolloutEventKind.HELD, by, detail="x" * 200_000)
        write = RolloutWrite(slot=rollout.slot, expected_revision=rollout.revision, events=(long,) * 30)
        await bench.store.write(write)
        rows = await bench.audit()
    assert [len(row.rollout.detail) for row in rows[-30:]] == [200_000] * 30
    assert [row.sequence for row in rows] == sorted(row.sequence for row in rows)


async def test_the_replicas_say_which_version_their_binds_show() -> None:
    """A step is in effect once the replica shows its version: right away at the one that was asked."""
    async with an_operated_sidecar() as bench:
        result = await bench.step("Transition", target_state=pb.LIFECYCLE_STATE_TEST)
        answer = await bench.lifecycle.ListReplicas(pb.ListReplicasRequest(), timeout=10, metadata=bench.role())

    assert [(each.rollout_version >= result.rollout_version > 0, each.alive) for each in answer.replicas] == [
        (True, True)
    ]
    assert answer.rollout_version == result.rollout_version


@requirement("PF1-D-22", "PF1-D-23", "PF1-D-24", "PF1-D-26")
async def test_a_roll_back_brings_back_whom_it_replaced_and_only_one_is_active_at_any_time() -> None:
    """`shop2` replaced `shop`; back at its own ramp, without a transition; one in `rollback` is no target."""
    async with an_operated_sidecar(gated("shop"), gated("shop2", slot="shop")) as bench:
        await bench.promoted(ramp=7000)
        await bench.promoted(ramp=500, definition_id="shop2")
        both = {
            each.definition_id: (each.active, each.ramp_basis_points) for each in (await bench.status()).definitions
        }
        before = len(await bench.audit())
        await bench.step("RollBack", "shop2")
        after = {each.definition_id: (each.active, each.state) for each in (await bench.status()).definitions}
        moves = [row.transition.definition_id for row in (await bench.audit())[before:] if row.HasField("transition")]
        ramps = [each.ramp_basis_points for each in (await bench.status()).definitions]
        refused = await bench.refused("Activate", "shop2")

    assert both == {"shop": (False, 7000), "shop2": (True, 500)}
    assert after == {"shop": (True, pb.LIFECYCLE_STATE_PROMOTE), "shop2": (False, pb.LIFECYCLE_STATE_ROLLBACK)}
    assert (moves, ramps[0], refused.reason) == (["shop2"], 7000, "TRANSITION_REFUSED")


@requirement("PF1-D-30", "PF1-D-11")
async def test_rolling_back_several_levels_takes_as_many_requests_and_no_gate() -> None:
    """Three definitions replaced each other; each request takes one level, and the last leaves nobody."""
    names = ("shop", "shop2", "shop3")
    async with an_operated_sidecar(*(gated(name, slot="shop") for name in names)) as bench:
        for name in names:
            await bench.promoted(ramp=500, definition_id=name)
        bench.gates.asked.clear()
        active = []
        for name in reversed(names):
            await bench.step("RollBack", name)
            found = [each.definition_id for each in (await bench.status()).definitions if each.active]
            active.append(found)

    assert active == [["shop2"], ["shop"], []]
    assert bench.gates.asked == []


async def test_rollouts_are_listed_from_memory_only_if_that_is_asked_for() -> None:
    """With what was killed here; a sidecar that has read nothing yet has nothing to show."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=2500)
        bench.store.away = True
        strict = await failure_of(bench.lifecycle.ListRollouts(pb.ListRolloutsRequest(), metadata=bench.role()))
        before = await listed(bench)
        await bench.step("Kill", header={"expected_revision": None})
        after = await listed(bench)
        bench.store.away = False
        recorded = await listed(bench)

    assert strict.reason == "STORE_UNAVAILABLE"
    assert [each.replica_view for each in (before, after, recorded)] == [True, True, False]
    assert [each.slots[0].definitions[0].state for each in (before, after)] == [
        pb.LIFECYCLE_STATE_PROMOTE,
        pb.LIFECYCLE_STATE_ROLLBACK,
    ]
    assert (before.slots[0].active_digest != "", after.slots[0].active_digest) == (True, "")
    assert after.slots[0].definitions[0].killed.killed_by == "ada@example"


async def listed(bench: OperatedSidecar) -> pb.ListRolloutsResponse:
    """Return the rollouts, from memory if need be."""
    request = pb.ListRolloutsRequest(or_replica_view=True)
    answer: pb.ListRolloutsResponse = await bench.lifecycle.ListRollouts(request, metadata=bench.role())
    return answer
