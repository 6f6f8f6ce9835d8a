"""An entry that names no flag: it starts at `dev` like any other, unless the settings let it serve at once."""

from datetime import timedelta
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from sidecar.adapters.system import SystemIds
from sidecar.observability import event_names
from sidecar.operations.rollout.views.definition_watch import RecordDefinitions
from sidecar.rpc.translate.fields import timestamp
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.builders import a_card
from tests.support.enum_words import word
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requirement import requirement
from tests.support.whole_chain import running_chain

UNFLAGGED: Final = a_card("shop")
INSIDE: Final = "user-20"
"""In bucket 131 of the salt `shop`."""


async def started_again(bench: OperatedSidecar, *, at_once: bool) -> None:
    """See the configuration as a process does that starts on this record, with the setting on or off."""
    seeing = RecordDefinitions(
        bench.sidecar.definitions,
        bench.store,
        bench.rollout.views,
        bench.clock,
        SystemIds(),
        bench.sidecar.recorder,
        serve_at_once=at_once,
    )
    await seeing.look()


async def explained_at(bench: OperatedSidecar, when: Timestamp) -> str:
    """Return what served a user at a time, as the audit has it."""
    request = pb.ExplainServingRequest(slot="shop", principal=INSIDE, at=when)
    answer = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role())
    return str(answer.served_digest)


async def standing(bench: OperatedSidecar) -> tuple[int, bool, int]:
    """Return state, whether it is active, and the ramp of the one definition in `shop`."""
    (one,) = (await bench.status()).definitions
    return one.state, one.active, one.ramp_basis_points


@requirement("PF1-FR-3a", "PF1-AC-1a")
async def test_a_new_entry_without_a_flag_serves_nobody_and_the_log_says_which_commands_serve_it() -> None:
    """By default, in an empty slot too: a line for each entry, with the flag to name and the two steps to take."""
    async with running_chain(unflagged_at_once=False) as chain:
        bound = await chain.bind()
        lines = chain.heard.of(event_names.DEFINITION_UNFLAGGED)

    assert list(bound.surface.sub_agent_tools) == []
    assert [line.__dict__["fields"]["definition_id"] for line in lines] == ["shop", "rewards", "support"]
    assert {line.levelname for line in lines} == {"WARNING"}
    said = lines[0].getMessage()
    assert "it serves no user" in said
    assert "`enabled_via_flag: ai_assistant_subagent_shop`" in said
    assert "`sidecar subagent promote shop --reason …` and `sidecar subagent ramp shop 5 --reason …`" in said


async def test_a_major_change_in_place_is_logged_with_what_serves_and_what_waits() -> None:
    """The recorded card serves on; the line names both digests and the command that promotes the new one."""
    async with running_chain() as chain:
        await chain.edit({"capabilities-shop, context-location-aware]": "capabilities-shop]"})
        (line,) = chain.heard.of(event_names.DEFINITION_CHANGED_MAJOR)

    fields, said = line.__dict__["fields"], line.getMessage()
    assert (line.levelname, fields["definition_id"]) == ("WARNING", "shop")
    assert f"the recorded card (digest {fields['serving']}) still serves; the new one ({fields['loaded']})" in said
    assert f"`sidecar subagent promote shop --digest {fields['loaded'][7:15]} --reason …`" in said


@requirement("PF1-FR-3a")
async def test_a_new_entry_without_a_flag_is_served_once_it_names_one_and_is_promoted() -> None:
    """Without one promotion is refused, and says what to add; explain says so, too."""
    async with an_operated_sidecar(UNFLAGGED) as bench:
        began = await standing(bench)
        await bench.step("Transition", target_state=pb.LIFECYCLE_STATE_TEST)
        refused = await bench.refused("Transition", target_state=pb.LIFECYCLE_STATE_PROMOTE)
        request = pb.ExplainServingRequest(slot="shop", principal=INSIDE)
        explained = await bench.lifecycle.ExplainServing(request, timeout=10, metadata=bench.role())
        await bench.configured(gated("shop"))
        await bench.step("Transition", target_state=pb.LIFECYCLE_STATE_PROMOTE)
        await bench.step("SetRamp", ramp_basis_points=500)
        served = await bench.offers(INSIDE)

    assert began == (pb.LIFECYCLE_STATE_DEV, False, 0)
    assert refused.reason == "TRANSITION_REFUSED"
    assert "add `enabled_via_flag: ai_assistant_subagent_shop` to its entry" in refused.message
    (words,) = [each.explanation for each in explained.verdicts]
    assert words == "it is in test and names no flag, which promotion needs; only promote is served"
    assert served == ["ask_shop"]


@requirement("PF1-D-75")
async def test_what_is_on_record_as_serving_goes_on_serving_whatever_the_setting() -> None:
    """An installation that restarts with the default loses no sub-agent that serves already, nor by a revision."""
    async with an_operated_sidecar(UNFLAGGED, unflagged_at_once=True) as bench:
        before = await standing(bench)
        await started_again(bench, at_once=False)
        await bench.configured(a_card("shop", description="Knows about shop, in other words."))
        await started_again(bench, at_once=False)

        assert before == await standing(bench) == (pb.LIFECYCLE_STATE_PROMOTE, True, 10_000)
        assert await bench.offers(INSIDE) == ["ask_shop"]


async def test_the_setting_also_serves_what_was_on_record_before_it_was_on() -> None:
    """Who switches it on after a first start is not left with sub-agents that stay at `dev`; the audit says why.

    It is explained for a time before that, too, and for now.
    """
    async with an_operated_sidecar(UNFLAGGED) as bench:
        before, began = await bench.offers(INSIDE), timestamp(bench.clock.now())
        bench.clock.time += timedelta(hours=1)
        await started_again(bench, at_once=True)
        explained = [await explained_at(bench, when) for when in (began, timestamp(bench.clock.now()))]
        after = await bench.offers(INSIDE, turn_id="turn-2")
        seen = [row.rollout for row in await bench.audit() if word(row.rollout, "kind") == "definition_seen"]
        await started_again(bench, at_once=True)

        assert (before, after) == ([], ["ask_shop"])
        assert explained == ["", UNFLAGGED.digest]
        assert [each.after_basis_points for each in seen] == [0, 10_000]
        assert "rollout.auto_promote_unflagged" in seen[-1].detail
        assert len([row for row in await bench.audit() if word(row.rollout, "kind") == "definition_seen"]) == 2


async def test_the_setting_serves_nothing_in_a_slot_that_a_kill_has_emptied() -> None:
    """Only where nothing has ever left `dev`: what an operator took away does not come back as something new."""
    async with an_operated_sidecar(gated("shop")) as bench:
        await bench.promoted(500)
        await bench.step("Kill")
        await bench.configured(a_card("shop2", slot="shop"))
        await started_again(bench, at_once=True)
        states = {each.definition_id: each.state for each in (await bench.status()).definitions}

        assert states == {"shop": pb.LIFECYCLE_STATE_ROLLBACK, "shop2": pb.LIFECYCLE_STATE_DEV}
        assert await bench.offers(INSIDE) == []
