"""What `sidecar subagent` says of stops that hold here only, of refusals, and of what was waited for."""

from datetime import timedelta
from pathlib import Path

import pytest

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.cli.subagent import decommission, verbs
from sidecar.cli.subagent.advice import HELPS
from sidecar.cli.subagent.kill import kill
from sidecar.core.identifiers import InstanceId
from sidecar.core.rollout.remedies import Remedy
from sidecar.core.rollout.states import LifecycleState
from tests.support.decommission_bench import a_bench
from tests.support.operator_desk import INSIDE, Desk, wish
from tests.support.operators import an_operated_sidecar
from tests.support.requirement import requirement

RECORDED = "not yet in effect: the step is not recorded yet, so no other replica knows it\n"


@requirement("PF1-FR-9c", "PF1-FR-9d")
async def test_a_kill_that_holds_here_only_is_not_said_to_be_done() -> None:
    """The store is away: what holds here, and what the record says; nothing is waited for; exit code 3."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=8000)
        bench.store.away = True
        code, out, _ = await desk.say(kill, wish())
        waited, late, _ = await desk.say(kill, wish(wait=True))
        bench.store.away = False
        recorded = await desk.say(kill, wish())

    assert (code, waited) == (3, 3)
    assert "  in effect at this sidecar only: killed; the record still has: promoted, ramp 80 % (" in out
    assert "done:" not in out
    assert (RECORDED in late, desk.passed) == (True, 0.0)
    assert (recorded[0], "done: killed (" in recorded[1]) == (0, True)


async def test_a_kill_of_what_nobody_here_knows_says_nothing_of_the_record() -> None:
    """The store is away, and only the digest says what is meant."""
    async with an_operated_sidecar() as bench:
        bench.store.away = True
        digest = f"sha256:{'ab' * 32}"
        code, out, _ = await Desk(bench).say(kill, wish("nobody", digest=digest, slot="nobody"))

    assert code == 3
    assert "killed; its recorded state is unknown here (abababab)" in out


async def test_a_ramp_down_that_holds_here_only_is_not_said_to_be_done() -> None:
    """The same, and with --wait nothing is waited for that nobody else can show."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        bench.store.away = True
        code, out, _ = await desk.say(verbs.ramp_down, wish(), "floor-7")
        waited, late, _ = await desk.say(verbs.ramp_down, wish(wait=True), "floor-8")

    assert (code, waited) == (3, 3)
    assert "  in effect at this sidecar only: ramp 0 %; the recorded ramp is unchanged (" in out
    assert "done:" not in out
    assert (f"  {RECORDED}" in late, desk.passed) == (True, 0.0)


@requirement("PF1-FR-9c")
async def test_a_target_that_refuses_a_kill_was_reached(tmp_path: Path) -> None:
    """One that knows no such token, or has it in dev; a dead one; one where it holds: each is called what it is."""
    dead = f"unix:{tmp_path / 'dead.sock'}"
    async with an_operated_sidecar() as bench, an_operated_sidecar() as other:
        desk, elsewhere = Desk(bench), Desk(other).target
        await bench.promoted(ramp=500)
        token = other.token(aud="elsewhere")
        strange = await desk.say(kill, wish(), targets=(elsewhere,), token=token)
        ruled = await desk.say(kill, wish(), targets=(elsewhere, dead), token=other.token())
        mixed = await desk.object(kill, wish(request_id="cli-9"), targets=(elsewhere, dead, desk.target))

    assert strange[0] == 2
    assert f"REFUSED by {elsewhere}: " in strange[1]
    assert "(ROLE_TOKEN_INVALID); next: mint a token" in strange[1]
    assert ruled[0] == 1
    assert f"REFUSED by {elsewhere}: shop is in dev: it serves no user (TRANSITION_REFUSED)" in ruled[1]
    assert f"NOT REACHED: {dead}: no sidecar answers" in ruled[1]
    assert [each["outcome"] for each in mixed[1]["targets"]] == ["refused", "not_reached", "reached"]
    assert [(each["problem"] or {}).get("reason") for each in mixed[1]["targets"]] == ["ROLE_TOKEN_INVALID", "", None]
    assert mixed[0] == 3


async def test_a_kill_that_was_waited_for_says_that_it_is_in_effect() -> None:
    """As every step does, with how many replicas."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        other = MemoryRollouts(bench.clock, bench.contents, InstanceId("the-other"))
        await other.show(0, bench.clock.now())
        await bench.promoted(ramp=500)

        async def looks() -> None:
            await other.show(await other.version(), bench.clock.now())

        desk.meanwhile = looks
        code, out, _ = await desk.say(kill, wish(wait=True, patience=timedelta(seconds=9)))

    assert code == 0
    assert "\nin effect: every living replica (2) shows version " in out


@pytest.mark.parametrize(
    ("state", "points", "said", "following"),
    [
        (LifecycleState.DEV, 500, "only `promote` ramps", "run `sidecar subagent promote shop --reason …` first"),
        (None, 10_000, "must be below 100 %", "`sidecar subagent ramp shop PERCENT --reason …` with a smaller share"),
        (None, 700, "is not a declared step", "declare others: `sidecar subagent configure shop --curve …`"),
    ],
)
async def test_a_refused_ramp_names_the_verb_that_helps(
    state: LifecycleState | None, points: int, said: str, following: str
) -> None:
    """Not promoted yet, everybody at once, and a step that the curve does not have."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        if state is None:
            await desk.say(verbs.promote, wish())
            await desk.say(verbs.configure, wish(), "", (500, 10_000))
        code, _, errors = await desk.say(verbs.ramp, wish(), points)

    assert code == 1
    assert said in errors
    assert following in errors.partition("\nnext: ")[2]


async def test_a_killed_definition_stays_dead_and_the_answer_says_what_to_do() -> None:
    """No verb brings it back: not promote, ramp or activate."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        await desk.say(kill, wish(), targets=(desk.target,))
        answers = [
            await desk.say(verbs.promote, wish()),
            await desk.say(verbs.ramp, wish(), 700),
            await desk.say(verbs.activate, wish()),
        ]

    assert [code for code, _, _ in answers] == [1, 1, 1]
    assert [errors for _, _, errors in answers if "author a new definition" not in errors] == []


async def test_an_open_breach_names_the_verb_that_takes_note_of_it() -> None:
    """Before the next raise."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        await desk.say(verbs.ramp_down, wish(), "floor-7")
        code, _, errors = await desk.say(verbs.ramp, wish(), 500)

    assert code == 1
    assert errors.endswith("\nnext: run `sidecar subagent acknowledge-breach shop --reason …` first\n")


async def test_a_refused_step_of_a_decommission_names_what_comes_before(tmp_path: Path) -> None:
    """Rolled back first; begun first; another step first; the configuration first; the decisions first."""
    async with a_bench(tmp_path, begun=False) as bench:
        await bench.sidecar.put(bench.sidecar.facts(LifecycleState.PROMOTE))
        said = [await bench.say(decommission.begin, wish())]
        await bench.sidecar.put(bench.sidecar.facts(LifecycleState.ROLLBACK))
        said.append(await bench.say(decommission.undo, wish()))
        await bench.say(decommission.begin, wish())
        said.append(await bench.unseen_step(2))
        said.append(await bench.unseen_step(1))
        await bench.patched(through=4)
        for _ in range(4):
            await bench.unseen_step()
        said.append(await bench.unseen_step())

    assert [code for code, _, _ in said] == [1] * 5
    assert [errors.partition("\nnext: ")[2].strip() for _, _, errors in said] == [
        "run `sidecar subagent rollback shop --reason …` first",
        "run `sidecar subagent decommission begin shop --reason …` first",
        "run `sidecar subagent decommission step shop 1 --reason …` first",
        "`sidecar subagent decommission patch shop` writes the change",
        "run `sidecar subagent decommission decide shop evals|tools retain|remove --reason …` first",
    ]


async def test_bound_turns_are_waited_for_and_can_be_looked_at() -> None:
    """A turn that was bound to it before it went holds its decommission up."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        await bench.offers(INSIDE)
        await desk.say(verbs.roll_back, wish())
        code, _, errors = await desk.say(decommission.begin, wish())

    assert code == 1
    assert "open turns are bound to shop: 1" in errors
    assert errors.endswith("\nnext: `sidecar turns --state open` lists them; repeat the command once they have ended\n")


def test_every_remedy_that_a_sidecar_names_is_advice() -> None:
    """None is without words."""
    assert set(HELPS) == set(Remedy)
