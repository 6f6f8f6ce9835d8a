"""A rollback whose recorded target cannot serve: the refusal names who can, and the operator names one, or none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import grpc
import msgspec
import pytest

from sidecar.core.identifiers import Digest, Slot
from sidecar.operations.rollout.store.ports import RolloutWrite
from subagents.lifecycle.v1 import lifecycle_pb2
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.rpc.test_rollout_targets import INSIDE, MID, NEW, OLD, replaced, served
from tests.support.enum_words import word
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requests import failure_of
from tests.support.requirement import requirement

UNREAD: Final = {"expected_revision": None}
ROLLBACK: Final = pb.LIFECYCLE_STATE_ROLLBACK


@asynccontextmanager
async def three_in_a_row() -> AsyncIterator[OperatedSidecar]:
    """Serve `shop3`, which replaced `shop2`, which replaced `shop`; all at 100 %."""
    async with an_operated_sidecar(OLD, unflagged_at_once=True) as bench:
        await replaced(bench, OLD, MID, NEW)
        yield bench


async def killed(bench: OperatedSidecar) -> None:
    """Kill the recorded target."""
    await bench.step("Kill", "shop2", header=UNREAD)


async def rolled_back(bench: OperatedSidecar) -> None:
    """Take the recorded target back itself."""
    await bench.step("RollBack", "shop2")


async def decommissioned(bench: OperatedSidecar) -> None:
    """Begin to take the recorded target away for good."""
    await bench.step("RollBack", "shop2")
    await bench.step("BeginDecommission", "shop2")


async def content_lost(bench: OperatedSidecar) -> None:
    """Lose what is kept of the recorded target; its entry is in the configuration no more."""
    bench.sidecar.definitions.forget(MID.digest)
    del bench.contents.definitions[MID.digest]


async def off_the_record(bench: OperatedSidecar) -> None:
    """Have a record that does not know the recorded target."""
    stored = await bench.store.rollout(Slot("shop"))
    assert stored is not None
    left = {digest: facts for digest, facts in stored.definitions.items() if digest != MID.digest}
    after = msgspec.structs.replace(stored, definitions=left, revision=stored.revision + 1)
    await bench.store.write(RolloutWrite(slot=Slot("shop"), expected_revision=stored.revision, rollout=after))


DEATHS: Final = [
    (killed, "it was killed"),
    (rolled_back, "it is in rollback"),
    (decommissioned, "it is being decommissioned"),
    (content_lost, "its content is kept nowhere whole, or hashes to another digest"),
    (off_the_record, "it is not on record any more"),
]


@requirement("PF1-D-22", "PF1-D-23", "PF1-D-24", "PF1-FR-7b")
@pytest.mark.parametrize(("death", "why"), DEATHS)
async def test_a_dead_target_refuses_the_rollback_and_the_operator_names_another(death: Any, why: str) -> None:
    """The refusal changes nothing and says who can; the one that is named serves at the next bind, at its own ramp."""
    async with three_in_a_row() as bench:
        await death(bench)
        revision = await bench.revision()
        refused = await bench.refused("RollBack", "shop3")
        unchanged = await bench.revision()
        answer = await bench.step("RollBack", "shop3", target_digest=OLD.digest)
        serving = await served(bench)
        (activated,) = [row for row in await bench.audit() if word(row.rollout, "kind") == "activated"][-1:]

    assert (refused.reason, unchanged) == ("TRANSITION_REFUSED", revision)
    assert f"cannot take the place of shop3: {why}; name another target, or none" in refused.message
    assert f"shop ({OLD.digest})" in refused.message
    assert (refused.metadata["remedy"], refused.metadata["choices"]) == ("name_target", "shop|none")
    assert (answer.changed, answer.state, answer.active, serving) == (True, ROLLBACK, False, OLD.digest)
    assert activated.digest == OLD.digest
    assert activated.rollout.detail.startswith("instead of the recorded target ")
    assert MID.digest in activated.rollout.detail


@requirement("PF1-D-22", "PF1-FR-8c")
async def test_naming_nobody_leaves_the_slot_empty_until_an_operator_fills_it() -> None:
    """No candidate is proven, for none serves; the audit and the explanation say so, and `Activate` fills the slot."""
    async with three_in_a_row() as bench:
        await killed(bench)
        await bench.step("RollBack", "shop3", leave_empty=True)
        empty = await served(bench)
        words = await explained(bench)
        rows = [row.rollout for row in await bench.audit()]
        await bench.step("Activate", "shop")
        filled = await served(bench)

    assert (empty, filled) == (None, OLD.digest)
    assert words == {
        "shop": "it is in promote, and the slot is empty until an operator activates a definition",
        "shop2": "it was killed",
        "shop3": "it is in rollback; only promote is served",
    }
    (emptied,) = [each for each in rows if word(each, "kind") == "slot_emptied"]
    assert (emptied.definition_id, emptied.detail) == ("shop3", f"instead of the recorded target shop2 ({MID.digest})")


async def explained(bench: OperatedSidecar) -> dict[str, str]:
    """Return what is said of each definition for a user."""
    request = pb.ExplainServingRequest(slot="shop", principal=INSIDE)
    answer = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role())
    return {each.definition_id: each.explanation for each in answer.verdicts}


@requirement("PF1-D-50")
async def test_the_past_shows_who_was_named_and_that_nobody_was() -> None:
    """Explained from the audit: before the rollback, while the slot was empty, and after it was filled."""
    async with three_in_a_row() as bench:
        await killed(bench)
        times, found = [bench.clock.now()], []
        steps: list[tuple[str, str, dict[str, Any]]] = [
            ("RollBack", "shop3", {"leave_empty": True}),
            ("Activate", "shop", {}),
        ]
        for method, name, fields in steps:
            bench.clock.time += timedelta(minutes=1)
            await bench.step(method, name, **fields)
            times.append(bench.clock.now())
        for at in times:
            request = pb.ExplainServingRequest(slot="shop", principal=INSIDE)
            request.at.FromDatetime(at)
            answer = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role())
            found.append(answer.served_digest)

    assert found == [NEW.digest, "", OLD.digest]


CANNOT: Final = [
    ("shop3", {"target_digest": NEW.digest}, "it is the one that is rolled back"),
    ("shop3", {"target_digest": MID.digest}, "it was killed"),
    ("shop", {"target_digest": NEW.digest}, "is not active in shop, so nothing replaces it"),
    ("shop", {"leave_empty": True}, "is not active in shop, so nothing replaces it"),
]


@pytest.mark.parametrize(("name", "named", "why"), CANNOT)
async def test_who_cannot_serve_cannot_be_named_either(name: str, named: dict[str, Any], why: str) -> None:
    """Itself, a dead one, or anybody for a definition that is not active: refused with the reason, and kept."""
    async with three_in_a_row() as bench:
        await killed(bench)
        head = {"request_id": "rollback-1", "expected_revision": await bench.revision()}
        refused = await bench.refused("RollBack", name, header=head, **named)
        again = await bench.refused("RollBack", name, header=head, **named)
        serving = await served(bench)

    assert (refused.reason, again.metadata.get("repeated")) == ("TRANSITION_REFUSED", "true")
    assert why in refused.message
    assert serving == NEW.digest


async def test_what_was_never_active_cannot_be_named() -> None:
    """No gate of a ramp has ever let a user to it."""
    fresh = gated("shop4", slot="shop")
    async with three_in_a_row() as bench:
        await bench.configured(NEW, fresh)
        await bench.promoted(0, "shop4")
        refused = await bench.refused("RollBack", "shop3", target_digest=fresh.digest)

    assert "it was never active" in refused.message
    assert refused.metadata["choices"] == "shop|shop2|none"


async def test_a_named_content_that_the_slot_does_not_have_is_a_conflict_and_an_empty_name_no_request() -> None:
    """A digest out of date; an empty one; `leave_empty` that says false. Nothing changes."""
    async with three_in_a_row() as bench:
        revision = await bench.revision()
        stale = await bench.refused("RollBack", "shop3", target_digest="sha256:gone", header=UNREAD)
        empty = await bench.refused("RollBack", "shop3", target_digest="")
        false = await bench.refused("RollBack", "shop3", leave_empty=False)
        after = await bench.revision()

    assert (stale.reason, stale.metadata["revision"]) == ("REVISION_CONFLICT", str(revision))
    assert {empty.code, false.code} == {grpc.StatusCode.INVALID_ARGUMENT}
    assert ("target_digest" in empty.fields, "leave_empty" in false.fields, after) == (True, True, revision)


@requirement("PF1-D-22")
async def test_another_target_may_be_named_although_the_recorded_one_could_serve() -> None:
    """The operator chooses; the recorded one stays in `promote`, inactive, and can be activated later."""
    async with three_in_a_row() as bench:
        await bench.step("RollBack", "shop3", target_digest=OLD.digest)
        serving = await served(bench)
        states = {each.definition_id: (each.state, each.active) for each in (await bench.status()).definitions}

    assert serving == OLD.digest
    assert states["shop2"] == (pb.LIFECYCLE_STATE_PROMOTE, False)


async def test_the_same_request_is_answered_as_before_and_with_another_target_its_id_is_used_up() -> None:
    """The answer was lost: the very same request takes nothing twice; another name under the id is refused."""
    async with three_in_a_row() as bench:
        await killed(bench)
        head = await bench.header("shop3", request_id="rollback-1")
        request = lifecycle_pb2.RollBackRequest(header=head, target_digest=OLD.digest)
        other = lifecycle_pb2.RollBackRequest(header=head, leave_empty=True)
        first, again = [
            (await bench.lifecycle.RollBack(request, timeout=10, metadata=bench.role())).result for _ in range(2)
        ]
        reused = await failure_of(bench.lifecycle.RollBack(other, timeout=10, metadata=bench.role()))
        serving = await served(bench)

    assert (first.changed, again.repeated, again.revision) == (True, True, first.revision)
    assert (reused.reason, serving) == ("REQUEST_ID_REUSED", OLD.digest)


@pytest.mark.parametrize("with_revision", [True, False])
async def test_of_two_operators_at_once_one_is_taken_and_the_other_is_told(with_revision: bool) -> None:
    """One names a target, one nobody: what is on record is one of the two, and never a mixture."""
    async with three_in_a_row() as bench:
        await killed(bench)
        header = {} if with_revision else UNREAD
        wishes: list[dict[str, Any]] = [{"target_digest": OLD.digest}, {"leave_empty": True}]
        told = await asyncio.gather(
            *(
                bench.step("RollBack", "shop3", header=dict(header), sub=f"op{number}@example", **wish)
                for number, wish in enumerate(wishes)
            ),
            return_exceptions=True,
        )
        done = [number for number, each in enumerate(told) if not isinstance(each, BaseException)]
        serving: Digest | None = await served(bench)
        moves = [row for row in await bench.audit() if row.digest == NEW.digest and row.HasField("transition")][-1:]

    assert len(done) == 1
    assert serving == (OLD.digest if done == [0] else None)
    assert [row.actor for row in moves] == [f"op{done[0]}@example"]


@pytest.mark.parametrize("role", ["automation", "breaker", "viewer"])
async def test_only_an_operator_rolls_back_to_anybody(role: str) -> None:
    """It gives users another definition."""
    async with three_in_a_row() as bench:
        refused = await bench.refused("RollBack", "shop3", role=role, target_digest=OLD.digest)

    assert refused.reason == "ROLE_REQUIRED"
