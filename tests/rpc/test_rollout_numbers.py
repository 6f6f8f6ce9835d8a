"""What a scraper reads of rollouts: ramps, pinned turns, drift, flags' age, clean-ups; as operators change them."""

import re
from datetime import timedelta

import msgspec

from sidecar.core.identifiers import Digest
from sidecar.core.rollout.states import LifecycleState
from sidecar.observability.exposition import exposition
from sidecar.observability.metrics import Metrics
from sidecar.observability.rollout_recorder import show_rollout, standing_gauges
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.decommissions import begin, ended, rewards, rolled_back, shop
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requirement import requirement

DAY = timedelta(days=1)


def numbers(bench: OperatedSidecar, name: str) -> dict[str, float]:
    """Return the series of one metric as a scraper reads them now, by their labels."""
    metrics = Metrics()
    show_rollout(metrics, standing_gauges(bench.rollout))
    page = exposition(metrics, "text/plain")[0].decode()
    found = re.findall(rf"^{name.replace('.', '_')}(?:{{(.*)}})? (\S+)$", page, re.MULTILINE)
    assert found or name == "sidecar.rollout.ramp", page
    return {labels: float(value) for labels, value in found}


@requirement("PF1-D-51")
async def test_each_definition_says_slot_vertical_and_state_and_its_ramp_while_in_promote() -> None:
    """By which the panels of one vertical are joined; in `dev` there is no ramp."""
    async with an_operated_sidecar() as bench:
        vertical = bench.sidecar.definitions.current_card("shop").definition.vertical
        info = f'state="{{}}",subagent_id="shop",vertical="{vertical}"'
        assert numbers(bench, "sidecar.rollout.definition_info") == {
            f'active="no",slot="shop",{info.format("dev")}': 1.0
        }
        assert numbers(bench, "sidecar.rollout.ramp") == {}
        await bench.promoted(2_500)
        assert numbers(bench, "sidecar.rollout.definition_info") == {
            f'active="yes",slot="shop",{info.format("promote")}': 1.0
        }
        assert numbers(bench, "sidecar.rollout.ramp") == {'subagent_id="shop"': 0.25}
        await bench.step("Kill", "shop")
        assert numbers(bench, "sidecar.rollout.ramp") == {}


async def test_turns_that_are_open_here_are_counted_by_the_definition_that_they_hold() -> None:
    """None, two, and one after an end."""
    async with an_operated_sidecar(gated("shop"), gated("rewards")) as bench:
        await bench.promoted()
        await bench.step("SetRamp", ramp_basis_points=9_999)
        before = numbers(bench, "sidecar.rollout.pinned_turns")
        one, _ = [await bench.sidecar.bind(principal="user-20") for _ in range(2)]
        two = numbers(bench, "sidecar.rollout.pinned_turns")
        await bench.sidecar.end(one)
        after = numbers(bench, "sidecar.rollout.pinned_turns")
    assert [each['subagent_id="shop"'] for each in (before, two, after)] == [0.0, 2.0, 1.0]
    assert after['subagent_id="rewards"'] == 0.0


async def test_a_flag_that_somebody_switched_off_is_drift_and_a_backend_that_is_away_has_no_age() -> None:
    """The kill flag itself is left alone here: falling, it would be a kill."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(500)
        assert numbers(bench, "sidecar.rollout.drift") == {'subagent_id="shop"': 0.0}
        assert numbers(bench, "sidecar.flags.age_seconds") == {'backend="memory"': 0.0}
        bench.flags.on["ai_assistant_subagent_shop_cohort"] = False
        assert numbers(bench, "sidecar.rollout.drift") == {'subagent_id="shop"': 1.0}
        bench.flags.away = True
        assert numbers(bench, "sidecar.flags.age_seconds") == {'backend="memory"': 1e9}


@requirement("PF1-OBS-5")
async def test_decommissions_are_counted_until_they_end_and_those_beyond_their_window_told_apart() -> None:
    """Nothing begun; begun; 91 days later; and ended."""
    async with an_operated_sidecar(shop(), rewards()) as bench:
        names = ("subagent.lifecycle.decommission_cleanup_pending_total", "sidecar.rollout.decommission_overdue")
        assert [numbers(bench, name) for name in names] == [{"": 0.0}, {"": 0.0}]
        await rolled_back(bench)
        await begin(bench)
        assert [numbers(bench, name) for name in names] == [{"": 1.0}, {"": 0.0}]
        bench.clock.time += 91 * DAY
        assert [numbers(bench, name) for name in names] == [{"": 1.0}, {"": 1.0}]
        await ended(bench)
        assert [numbers(bench, name) for name in names] == [{"": 0.0}, {"": 0.0}]


async def test_of_several_digests_the_active_one_speaks_for_an_id_else_the_one_seen_last() -> None:
    """Two digests in `promote` at 10 % and 40 %."""
    async with an_operated_sidecar() as bench:
        first = bench.facts(LifecycleState.PROMOTE, ramp=1_000)
        second = msgspec.structs.replace(first, ramp=4_000, digest=Digest("sha256:second"))
        for active, ramp in ((first.digest, 0.1), (second.digest, 0.4), (None, 0.4)):
            await bench.put(first, second, active=active)
            assert numbers(bench, "sidecar.rollout.ramp") == {'subagent_id="shop"': ramp}
        status = await bench.status()
    assert [each.state for each in status.definitions] == [pb.LIFECYCLE_STATE_PROMOTE] * 2
