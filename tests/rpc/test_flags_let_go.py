"""The flags of what was rolled back or killed are switched off, as soon as that can be taken for nothing else."""

import msgspec

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.core.identifiers import Digest, InstanceId
from sidecar.core.rollout.states import LifecycleState
from sidecar.operations.rollout.store.ports import RolloutWrite
from tests.support.operators import OperatedSidecar, an_operated_sidecar, gated
from tests.support.requirement import requirement

KILL, COHORT = "ai_assistant_subagent_shop", "ai_assistant_subagent_shop_cohort"


async def on(bench: OperatedSidecar) -> list[str]:
    """Return the flags that are on after everything has been looked at once."""
    await bench.rollout.views.look()
    await bench.rollout.release_flags.look()
    return sorted(name for name, is_on in bench.flags.on.items() if is_on)


async def drifts(bench: OperatedSidecar) -> list[str]:
    """Return what contradicts the record of `shop`."""
    return [text for each in (await bench.status()).definitions for text in each.drifts]


@requirement("PF1-FR-5a", "PF1-D-25")
async def test_after_a_rollback_or_a_kill_both_flags_go_off_and_nothing_contradicts_the_record() -> None:
    """Not before; and a kill itself switches only its own flag, since it waits for nothing."""
    for step in ("RollBack", "Kill"):
        async with an_operated_sidecar(gated("shop")) as bench:
            await bench.promoted(500)
            assert await on(bench) == [KILL, COHORT]
            await bench.step(step, "shop")
            assert await drifts(bench) != []
            assert await on(bench) == []
            assert await drifts(bench) == []


async def test_a_flag_that_another_definition_names_stays_on() -> None:
    """A replacement that borrows the kill flag of what it replaces is not killed by the rollback of that."""
    async with an_operated_sidecar(gated("shop")) as bench:
        await bench.promoted(500)
        await bench.configured(gated("shop"), gated("rewards", enabled_via_flag=KILL))
        await bench.step("RollBack", "shop")
        assert await on(bench) == [KILL, COHORT]


async def test_a_replica_that_does_not_know_of_the_rollback_yet_is_waited_for() -> None:
    """It would take the fall of the flag for a kill."""
    async with an_operated_sidecar(gated("shop")) as bench:
        await bench.promoted(500)
        late = MemoryRollouts(bench.clock, bench.contents, InstanceId("late"))
        await late.show(await late.version(), bench.clock.now())
        await bench.step("RollBack", "shop")
        assert await on(bench) == [KILL, COHORT]
        await late.show(await late.version(), bench.clock.now())
        assert await on(bench) == []


async def test_a_view_that_is_behind_switches_nothing() -> None:
    """Elsewhere a definition that needs the flag is on record already: its fall would kill that one."""
    async with an_operated_sidecar(gated("shop")) as bench:
        await bench.promoted(500)
        await bench.step("RollBack", "shop")
        elsewhere = MemoryRollouts(bench.clock, bench.contents, InstanceId("elsewhere"))
        (rollout,) = [each for each in await elsewhere.rollouts() if each.slot == "shop"]
        (old,) = rollout.definitions.values()
        new = msgspec.structs.replace(old, digest=Digest("sha256:new"), state=LifecycleState.PROMOTE)
        after = msgspec.structs.replace(rollout.with_facts(new), revision=rollout.revision + 1, active=new.digest)
        await elsewhere.write(RolloutWrite(slot=rollout.slot, expected_revision=rollout.revision, rollout=after))
        await bench.rollout.release_flags.look()
        assert bench.flags.on[KILL]
        assert await on(bench) == [KILL, COHORT]


async def test_a_backend_that_cannot_be_written_is_left_alone_and_one_that_fails_is_told() -> None:
    """Whoever may switch its flags reads in the drift that somebody has to."""
    async with an_operated_sidecar(gated("shop")) as bench:
        await bench.promoted(500)
        await bench.step("RollBack", "shop")
        bench.flags.read_only = True
        assert await on(bench) == [KILL, COHORT]
        assert "if this line stays, switch them off by hand" in " ".join(await drifts(bench))
        bench.flags.read_only, bench.flags.refuses = False, True
        assert await on(bench) == [KILL, COHORT]
        assert [kind for kind, _ in bench.sidecar.recorder.of("anomaly")].count("flag_not_released") == 2
        bench.flags.refuses = False
        assert await on(bench) == []
