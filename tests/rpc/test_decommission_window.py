"""The window of a decommission through the RPC: what is shown in it, and when it has passed."""

from datetime import timedelta

from sidecar.core.rollout.states import LifecycleState
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.decommissions import (
    STEPS,
    begin,
    configuration,
    listed,
    loaded,
    rewards,
    rolled_back,
    shop,
    take,
)
from tests.support.operators import an_operated_sidecar
from tests.support.requirement import requirement

ENTRY, REFERENCES, *_ = STEPS


@requirement("PF1-NFR-5a")
async def test_when_the_window_has_passed_every_view_says_so() -> None:
    """One second before, and then: list, slot, log once a day and not twice; and once on the audit."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        await rolled_back(bench)
        await begin(bench)
        watch = bench.rollout.watch_decommissions
        bench.clock.time += timedelta(days=90, seconds=-1)
        await watch.look()
        before = (await listed(bench))[0].overdue, (await bench.status()).definitions[0].decommission_overdue
        quiet = len(bench.sidecar.recorder.of("anomaly"))
        bench.clock.time += timedelta(seconds=1)
        for hours in (0, 1, 22, 1, 0):
            bench.clock.time += timedelta(hours=hours)
            await watch.look()
        after = (await listed(bench))[0].overdue, (await bench.status()).definitions[0].decommission_overdue
        said = bench.sidecar.recorder.of("anomaly")[quiet:]
        rows = await bench.audit()

    assert (before, after) == ((False, False), (True, True))
    assert [kind for kind, _ in said] == ["decommission_overdue"] * 2
    assert "shop: begun 2026-11-22, due 2027-02-20; " in said[0][1]
    late = [row for row in rows if row.rollout.kind == pb.ROLLOUT_EVENT_KIND_DECOMMISSION_OVERDUE]
    assert [(row.rollout.definition_id, row.actor) for row in late] == [("shop", "decommission-watch")]


@requirement("PF1-NFR-5b")
async def test_in_the_window_the_deprecated_entry_stays_for_replay_and_is_never_offered() -> None:
    """Served to all, rolled back, marked: no bind offers it from then on, listed or not; its card is still known."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        digest = bench.facts(LifecycleState.PROMOTE).digest
        await bench.put(bench.facts(LifecycleState.PROMOTE, ramp=10_000), active=digest)
        bench.flags.on |= dict.fromkeys(("ai_assistant_subagent_shop", "ai_assistant_subagent_shop_cohort"), True)
        bound = await bench.sidecar.bind(principal="user-20")
        before = [tool.name for tool in bound.surface.sub_agent_tools]
        await bench.sidecar.end(bound)
        await bench.step("RollBack")
        await begin(bench)
        offered = []
        for names in (["shop", "rewards"], ["rewards"]):
            await loaded(bench, configuration(shop(deprecated=True), rewards(), names=names))
            offered.append(await bench.offers("user-20"))
        await take(bench, ENTRY)
        [definition] = (await bench.status()).definitions
        kept = await bench.store.definition(digest)

    assert (before, offered) == (["ask_shop"], [[], []])
    assert definition.decommission.next_step == REFERENCES
    assert kept is not None
