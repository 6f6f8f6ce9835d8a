"""A rollout as it stood in the past, and a preview under a bucketing that is broken."""

from collections.abc import Callable
from datetime import timedelta

import msgspec
import pytest

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.adapters.system import SystemClock
from sidecar.core.errors import TransitionRefused
from sidecar.core.identifiers import Digest
from sidecar.core.rollout import transitions
from sidecar.core.rollout.events import RolloutEvent, RolloutEventKind, TransitionEvent
from sidecar.core.rollout.facts import DefinitionFacts, SlotRollout
from sidecar.core.rollout.past_rollout import as_of
from sidecar.core.rollout.rollback import roll_back
from sidecar.core.rollout.states import LifecycleState
from sidecar.core.rollout.step import Change
from sidecar.operations.rollout.store.ports import RolloutWrite
from sidecar.operations.rollout.views.preview import PreviewRamp
from tests.unit.rollout.building import NOW, SHOP, by, facts, rollout


def served_facts(found: SlotRollout) -> list[tuple[str, str, int, bool]]:
    """Return what decides who is served: digest, state, ramp, whether it is active."""
    return [(each.digest, each.state, each.ramp, found.active == each.digest) for each in found.definitions.values()]


def test_the_past_of_a_rollout_is_what_its_audit_makes_of_it() -> None:
    """Promoted, ramped, replaced, rolled back: after each step the audit so far gives what was there."""
    seen = [facts(name, LifecycleState.TEST) for name in ("a", "b")]
    present = rollout(*seen)
    rows = [
        RolloutEvent(
            slot=SHOP,
            subagent_id=each.definition_id,
            digest=each.digest,
            what=RolloutEventKind.SEEN,
            at=NOW,
            actor="",
            reason="",
            request_id="",
        )
        for each in seen
    ]
    bodies: list[TransitionEvent | RolloutEvent] = [
        *rows,
        *(
            row
            for each in seen
            for row in transitions.to_test(rollout(facts_in_dev(each)), each.digest, by()).transitions
        ),
    ]
    present = never_active(present)
    steps: tuple[Callable[[SlotRollout], Change], ...] = (
        lambda now: transitions.promote(now, Digest("sha256:a"), by()),
        lambda now: transitions.set_ramp(now, Digest("sha256:a"), 500, by()),
        lambda now: transitions.promote(now, Digest("sha256:b"), by()),
        lambda now: transitions.set_ramp(now, Digest("sha256:b"), 700, by()),
        lambda now: transitions.ramp_down(now, Digest("sha256:a"), "floor-7", by()),
        lambda now: roll_back(now, Digest("sha256:b"), by()),
    )
    for step in steps:
        change = step(present)
        present = change.rollout
        bodies += [*change.transitions, *change.events]
        assert served_facts(as_of(present, bodies)) == served_facts(present)
    assert present.active == "sha256:a"


def facts_in_dev(each: DefinitionFacts) -> DefinitionFacts:
    """Return a definition as it was before."""
    return msgspec.structs.replace(each, state=LifecycleState.DEV)


def never_active(found: SlotRollout) -> SlotRollout:
    """Return it with nothing in it that was ever active."""
    fresh = {digest: msgspec.structs.replace(each, activated_at=None) for digest, each in found.definitions.items()}
    return msgspec.structs.replace(found, definitions=fresh)


def test_what_was_revised_since_takes_the_place_of_what_it_revises() -> None:
    """The old digest is nowhere in the present; its ramp and place go to the new one."""
    present = rollout(facts("new", ramp=500), active="new")
    start = RolloutEvent(
        slot=SHOP,
        subagent_id=facts("new").definition_id,
        digest=Digest("sha256:old"),
        what=RolloutEventKind.SEEN,
        at=NOW,
        actor="",
        reason="",
        request_id="",
        after=10_000,
    )
    revised = msgspec.structs.replace(
        start,
        digest=Digest("sha256:new"),
        what=RolloutEventKind.REVISED,
        at=NOW + timedelta(days=1),
        detail="sha256:old",
    )

    assert served_facts(as_of(present, [start])) == [("sha256:old", "promote", 10_000, True)]
    assert served_facts(as_of(present, [start, revised])) == [("sha256:new", "promote", 10_000, True)]


async def test_a_preview_refuses_a_raise_that_would_take_the_sub_agent_from_somebody() -> None:
    """With a bucketing that moves people; ours cannot, which its golden vectors hold."""
    store = MemoryRollouts(SystemClock())
    await store.write(RolloutWrite(slot=SHOP, expected_revision=0, rollout=rollout(facts("a", ramp=500), active="a")))
    broken = PreviewRamp(store, lambda: ["u1", "u2"], lambda salt, key, ramp: (ramp == 500) == (key == "u1"))

    with pytest.raises(TransitionRefused, match="from 1 of 2"):
        await broken("shop", "", 600)
    assert (await broken("shop", "", 400)).leaving == 1
