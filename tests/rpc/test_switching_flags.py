"""Flags switched and read through the RPC, at a backend that the sidecar writes and at one that somebody else does."""

from typing import Any

import pytest

from subagents.lifecycle.v1 import flags_pb2, reading_pb2
from tests.support.enum_words import word
from tests.support.operator_desk import INSIDE
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requests import failure_of
from tests.support.requirement import requirement

KILL, COHORT = "ai_assistant_subagent_shop", "ai_assistant_subagent_shop_cohort"
PAUSE, END = "SwitchCohortFlagOff", "SwitchFlagOn"


async def flags_of(bench: OperatedSidecar, slot: str = "shop") -> flags_pb2.GetFlagsResponse:
    """Return the flags of a slot as a viewer reads them."""
    request = flags_pb2.GetFlagsRequest(slot=slot)
    answer: flags_pb2.GetFlagsResponse = await bench.lifecycle.GetFlags(
        request, timeout=10, metadata=bench.role("viewer")
    )
    return answer


@requirement("PF1-D-7", "PF1-FR-2c")
async def test_a_pause_takes_the_sub_agent_from_everybody_and_its_end_gives_it_back_to_the_ramp() -> None:
    """State, ramp and revision stay; the rollout is paused by a watchdog, and taken up again by a person."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        revision, served = await bench.revision(), await bench.offers(INSIDE)
        paused = await bench.step(PAUSE, role="breaker", sub="watchdog", header={"expected_revision": None})
        away = await bench.offers(INSIDE, turn_id="turn-2")
        resumed = await bench.step(END, flag=flags_pb2.FLAG_KIND_COHORT)
        back = await bench.offers(INSIDE, turn_id="turn-3")
        rows = [row for row in await bench.audit() if word(row.rollout, "kind") == "flag_switched"]

    assert (served, away, back) == (["ask_shop"], [], ["ask_shop"])
    assert (paused.changed, paused.revision, paused.ramp_basis_points) == (True, revision, 500)
    assert (paused.flag.name, paused.flag.kind) == (COHORT, flags_pb2.FLAG_KIND_COHORT)
    assert (paused.flag.before, paused.flag.after) == (reading_pb2.FLAG_VALUE_ON, reading_pb2.FLAG_VALUE_OFF)
    assert [each.definition_id for each in paused.flag.affected] == ["shop"]
    assert (resumed.changed, resumed.flag.after) == (True, reading_pb2.FLAG_VALUE_ON)
    assert [(row.actor, row.rollout.detail) for row in rows] == [
        ("watchdog", f"cohort flag {COHORT}: on -> off"),
        ("ada@example", f"cohort flag {COHORT}: off -> on"),
    ]


@requirement("PF1-D-35")
async def test_where_somebody_else_has_the_flags_the_edit_is_told_and_nothing_is_changed() -> None:
    """No event, no answer kept: once the edit is made the same request finds that it is so."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        bench.flags.read_only = True
        head = {"request_id": "pause-1"}
        told = await bench.step(PAUSE, header=head)
        dry = await bench.step(PAUSE, header={"dry_run": True})
        before = dict(bench.flags.on)
        bench.flags.on[COHORT] = False
        done = await bench.step(PAUSE, header=head)
        on = await bench.step(END, flag=flags_pb2.FLAG_KIND_COHORT)
        writable = [each.writable for each in (await flags_of(bench)).definitions]
        happened = [word(row.rollout, "kind") for row in await bench.audit()]

    assert (list(told.edits), told.changed, before[COHORT]) == ([f"set {COHORT} to False"], False, True)
    assert list(dry.edits) == []
    assert (list(done.edits), done.changed, done.repeated) == ([], False, False)
    assert list(on.edits) == [f"set {COHORT} to True"]
    assert writable == [False]
    assert "flag_switched" not in happened


async def test_a_refusal_is_on_the_audit_and_repeated_and_says_what_to_do() -> None:
    """In `test` there is no flag of the ramp's making."""
    async with an_operated_sidecar() as bench:
        await bench.step("Transition", target_state=reading_pb2.LIFECYCLE_STATE_TEST)
        refused = await bench.refused(END, flag=flags_pb2.FLAG_KIND_KILL)
        row = (await bench.audit())[-1]

    assert refused.reason == "TRANSITION_REFUSED"
    assert (word(row.rollout, "kind"), row.actor) == ("refused", "ada@example")
    assert "a raise of the ramp does that" in row.rollout.detail
    assert bench.flags.on == {}


async def test_a_backend_that_cannot_be_switched_now_is_told_as_that_and_nothing_is_kept() -> None:
    """The same request may be asked again."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        bench.flags.refuses = True
        refused = await bench.refused(PAUSE, header={"request_id": "pause-1"})
        bench.flags.refuses = False
        done = await bench.step(PAUSE, header={"request_id": "pause-1"})

    assert refused.reason == "STORE_UNAVAILABLE"
    assert (done.changed, done.repeated) == (True, False)


@pytest.mark.parametrize(
    ("method", "fields", "words"),
    [
        (END, {}, "flag must be one of FLAG_KIND_KILL, FLAG_KIND_COHORT; was FLAG_KIND_UNSPECIFIED"),
        (END, {"flag": 1, "header": {"expected_revision": None}}, "header.expected_revision is missing"),
        (PAUSE, {"expected_version": -1}, "expected_version must be from 0 to"),
        (PAUSE, {"header": {"reason": " "}}, "header.reason is empty"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_the_field(method: str, fields: dict[str, Any], words: str) -> None:
    """Before anything is looked at."""
    async with an_operated_sidecar() as bench:
        refused = await bench.refused(method, **fields)

    assert refused.reason == "INVALID_REQUEST"
    assert words in refused.message


async def test_flags_are_read_with_backend_freshness_and_whoever_shares_them() -> None:
    """Two definitions behind one pair; a backend that is away makes both unreachable, never off."""
    async with an_operated_sidecar(gated("shop"), gated("rewards", enabled_via_flag=KILL)) as bench:
        await bench.promoted(ramp=500)
        (fresh,) = (await flags_of(bench)).definitions
        bench.flags.away = True
        (stale,) = (await flags_of(bench, "shop")).definitions
        unknown = await failure_of(flags_of(bench, "nobody"))

    assert [(each.name, each.value) for each in fresh.flags] == [
        (KILL, reading_pb2.FLAG_VALUE_ON),
        (COHORT, reading_pb2.FLAG_VALUE_ON),
    ]
    assert (fresh.backend.name, fresh.backend.fresh, fresh.writable, fresh.flag_pair) == ("memory", True, True, 4)
    assert [each.definition_id for each in fresh.flags[0].shared_with] == ["rewards"]
    assert (stale.backend.fresh, stale.flags[0].value) == (False, reading_pb2.FLAG_VALUE_UNREACHABLE)
    assert unknown.reason == "UNKNOWN_DEFINITION"
