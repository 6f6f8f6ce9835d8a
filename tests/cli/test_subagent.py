"""`sidecar subagent`: seeing rollouts and taking steps, against a sidecar's operator listener on a real socket."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from sidecar.cli.subagent import verbs
from sidecar.cli.subagent.kill import kill
from sidecar.cli.subagent.views import preview, show_list, show_slot
from sidecar.cli.validate.validate_refs import rollouts_in
from sidecar.core.identifiers import BlockId
from sidecar.policy.lifecycle import Verdict
from tests.support.builders import a_card
from tests.support.enum_words import lines_of
from tests.support.operator_desk import INSIDE, Answers, Desk, wish
from tests.support.operators import an_operated_sidecar, gated
from tests.support.requirement import requirement

GOLDEN: Final = Path(__file__).parent / "golden"


@requirement("PF1-D-63")
async def test_the_list_is_a_table_that_can_be_read_at_a_glance() -> None:
    """A paused one, one that a gate holds, one that was ramped down, and one without flags."""
    names = ("shop", "rewards", "support")
    async with an_operated_sidecar(*map(gated, names), a_card("greeter"), unflagged_at_once=True) as bench:
        desk = Desk(bench)
        for name, ramp in (("shop", 225), ("rewards", 500)):
            await desk.say(verbs.promote, wish(name))
            await desk.say(verbs.ramp, wish(name), ramp)
        await desk.say(verbs.ramp_down, wish("rewards"), "floor-7")
        await bench.offers(INSIDE)
        bench.gates.say["pre_merge"] = Verdict.PENDING
        await desk.say(verbs.promote, wish("support"))
        bench.flags.on["ai_assistant_subagent_shop_cohort"] = False
        code, out, _ = await desk.say(show_list)

    assert code == 0
    assert out == (GOLDEN / "subagent_list.txt").read_text()


@pytest.mark.parametrize(
    ("room", "heads"),
    [
        (200, "slot definition state flags last gate verdicts breach pinned drift"),
        (80, "slot definition state flags last gate verdicts"),
        (60, "slot definition state flags"),
    ],
)
async def test_a_list_wider_than_the_terminal_leaves_out_what_says_nothing(room: int, heads: str) -> None:
    """First columns that are empty for all, then what gates said."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        _, out, _ = await Desk(bench).say(show_list, environment={"COLUMNS": str(room)})

    head, row = out.splitlines()[:2]
    assert head.split() == heads.split()
    assert max(len(head), len(row)) <= room


async def test_what_gates_said_last_is_not_what_a_rule_refused() -> None:
    """A gate passed; then the rules refused a step without any gate."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=500)
        refused = await bench.refused("RetireFlags")
        said = (await bench.status()).definitions[0].last_gate_answers
        bench.gates.say["pre_ramp"] = Verdict.FAIL
        await bench.refused("SetRamp", ramp_basis_points=600)
        later = (await bench.status()).definitions[0].last_gate_answers

    assert (refused.reason, lines_of(said)) == ("TRANSITION_REFUSED", ["pre_ramp: pass: as scripted"])
    assert lines_of(later) == ["pre_ramp: fail: as scripted"]


async def test_the_list_says_that_flags_are_unreachable_which_is_neither_on_nor_off() -> None:
    """The backend is away: in the row of what it gates, and below."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await desk.say(verbs.promote, wish())
        bench.flags.away = True
        _, out, _ = await desk.say(show_list)

    assert "  unreachable (stale, never reached)  " in out
    assert "\nflag backend memory: unreachable (stale, never reached); definitions with flags in this backend" in out


async def test_the_list_as_json_is_the_export_that_validate_refs_reads(tmp_path: Path) -> None:
    """One row for each definition; the one that was rolled back is found in it."""
    async with an_operated_sidecar(gated("shop"), gated("rewards")) as bench:
        desk = Desk(bench)
        await desk.say(
            verbs.promote,
            wish(
                "shop",
            ),
        )
        await desk.say(verbs.roll_back, wish("shop"))
        desk.role = "viewer"
        code, out, _ = await desk.say(show_list, as_json=True)

    states = {row["definition_id"]: row["state"] for row in json.loads(out)["definitions"]}
    assert (code, states) == (0, {"shop": "rollback", "rewards": "dev"})
    (tmp_path / "rollouts.json").write_text(out)
    assert rollouts_in(tmp_path / "rollouts.json").rolled_back == {"shop"}


async def test_one_slot_is_shown_with_all_that_is_known_of_it() -> None:
    """A definition that replaced another, was ramped down and then killed; who would come back; what was let pass."""
    async with an_operated_sidecar(gated("shop"), gated("shop2", slot="shop")) as bench:
        desk = Desk(bench)
        for name in ("shop", "shop2"):
            await desk.say(verbs.promote, wish(name))
            await desk.say(verbs.ramp, wish(name), 500)
        await desk.say(verbs.ramp_down, wish("shop2", reason="too slow"), "floor-7")
        until = bench.clock.now() + timedelta(hours=2)
        await desk.say(verbs.override, wish("shop2", reason="it is known"), "pre_ramp", 500, until)
        _, before, _ = await desk.say(show_slot, "shop2")
        await desk.say(kill, wish("shop2", reason="it tells lies"))
        _, after, _ = await desk.say(show_slot, "shop")
        code, shown = await desk.object(show_slot, "shop")
        missing = await desk.say(show_slot, "nobody")

    assert "slot shop  revision 10" in before
    assert "after a rollback shop serves\n" in before
    assert "breach floor-7 2026-11-22 12:00:00 UTC: too slow" in before
    assert "override of pre_ramp, 0 % to 5 %, until 2026-11-22 14:00:00 UTC by ada@example: it is known" in before
    assert "killed 2026-11-22 12:00:00 UTC by ada@example: it tells lies" in after
    assert (code, [each["state"] for each in shown["definitions"]]) == (0, ["promote", "rollback"])
    assert missing[0] == 1
    assert "(UNKNOWN_DEFINITION)\nnext: `sidecar subagent list`" in missing[2]


@requirement("PF1-D-8")
async def test_promotion_goes_through_test_and_says_which_gates_are_asked_and_what_they_said() -> None:
    """First alone to test, as a dry run, then for good; each with a reason and an id in the audit."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        dry = await desk.say(verbs.promote, wish(dry_run=True))
        tested = await desk.say(verbs.promote, wish(), to_test=True)
        code, out, _ = await desk.say(verbs.promote, wish(reason="it is good"))
        rows = [(row.request_id, row.reason) for row in await bench.audit() if row.HasField("transition")]
        again = await desk.say(verbs.promote, wish())

    assert (dry[0], tested[0], code) == (0, 0, 0)
    assert "shop: in development -> in test; needs no gate\n" in dry[1]
    assert "shop: in test -> promoted, at 0 %; needs the gate pre_merge" in dry[1]
    assert "dry run, nothing was written; the step would lead to: in test" in dry[1]
    assert "dev" not in out
    assert "done: promoted (" in out
    assert "  gate pre_merge: pass: as scripted\n" in out
    assert rows == [("cli-2.test", "because a test says so"), ("cli-3", "it is good")]
    assert again[0] == 1
    assert again[2].partition("\n")[2] == "next: `sidecar subagent show shop` shows the current state\n"


@requirement("PF1-D-8")
async def test_after_a_major_change_promote_means_the_new_content_and_says_so() -> None:
    """The recorded content serves on. The first eight digits name the other one; kills and ramp-downs take all."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        await bench.configured(gated("shop", prompt_blocks=(BlockId("persona-new"),)))
        before = (await bench.status()).active_digest
        (new,) = [each.digest for each in (await bench.status()).definitions if each.digest != before]
        _, shown, _ = await desk.say(show_slot, "shop")
        code, out, _ = await desk.say(verbs.promote, wish())
        unknown = await desk.say(verbs.ramp, wish(digest="01234567"), 600)
        blind = [
            await desk.say(kill, wish(digest=new[7:15])),
            await desk.say(verbs.ramp_down, wish(digest=new[7:15]), "floor-7"),
            await desk.say(preview, "shop", 600, new[7:15]),
        ]
        served = (await bench.status()).active_digest
        ramped = await desk.say(verbs.ramp, wish(digest=new[7:15]), 600)
        after = (await bench.status()).active_digest

    short = new[7:15]
    assert f"shop@{short}: in development -> in test" in out
    assert (code, served, ramped[0], after) == (0, before, 0, new)
    assert out.count("request id") == 1
    assert f"--revision 5 --digest {short}" in out
    assert f"its next steps need --digest {short}: without it, shop is the active one" in out
    assert "flags not switched on for this definition yet: ai_assistant_subagent_shop on" in shown
    assert "the slot shop has no definition shop with the digest 01234567; it has: sha256:" in unknown[2]
    assert f"{before}, {new}; at revision" in unknown[2] or f"{new}, {before}; at revision" in unknown[2]
    assert unknown[2].endswith("next: nothing changed; give --digest one of these\n")
    assert [code for code, _, _ in blind] == [2, 2, 2]
    assert all("give the whole digest" in errors for _, _, errors in blind)


@requirement("PF1-FR-4b")
async def test_a_ramp_rises_by_fractions_of_a_percent_and_to_everybody_only_when_confirmed() -> None:
    """A dry run, a quarter of a percent, and everybody: nobody there to confirm, no, and yes."""
    async with an_operated_sidecar() as bench:
        desk, no, yes = Desk(bench), Answers(yes=False), Answers(yes=True)
        await desk.say(verbs.promote, wish())
        dry = await desk.say(verbs.ramp, wish(dry_run=True), 25)
        first = await desk.say(verbs.ramp, wish(), 25)
        alone = await desk.say(verbs.ramp, wish(yes=False), 10_000)
        refused = await desk.say(verbs.ramp, wish(yes=False), 10_000, ask=no)
        before = (await bench.status()).definitions[0].ramp_basis_points
        done, result = await desk.object(verbs.ramp, wish(yes=False), 10_000, ask=yes)
        retired = await desk.say(verbs.retire_flags, wish())

    assert (dry[0], first[0], before) == (0, 0, 25)
    assert "the step would lead to: live 0.25 %" in dry[1]
    assert "done: live 0.25 %" in first[1]
    assert (alone[0], "give --yes" in alone[2], refused[0], refused[2]) == (2, True, 2, "nothing was done\n")
    assert no.asked == yes.asked == ["shop will serve all users. Continue?"]
    assert (
        done,
        result["steps"][0]["ramp_basis_points"],
        [each["gate"] for each in result["steps"][0]["gate_answers"]],
    ) == (
        0,
        10_000,
        ["pre_full"],
    )
    assert (retired[0], "retire ai_assistant_subagent_shop, " in retired[1]) == (0, True)


async def test_what_a_gate_refuses_or_holds_is_told_with_the_next_step_and_a_fail_can_be_overridden() -> None:
    """Exit code 1; a fail is let pass once, an outage never."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await desk.say(verbs.promote, wish())
        bench.gates.say["pre_ramp"] = Verdict.FAIL
        failed = await desk.say(verbs.ramp, wish(), 500)
        bench.gates.say["pre_ramp"] = None
        held = await desk.say(verbs.ramp, wish(), 500)
        held_json, said = await desk.object(verbs.ramp, wish(), 500)
        bench.gates.say["pre_ramp"] = Verdict.PENDING
        pending = await desk.say(verbs.ramp, wish(), 500)
        bench.gates.say["pre_ramp"] = Verdict.FAIL
        until = bench.clock.now() + timedelta(hours=1)
        let = await desk.say(verbs.override, wish(), "pre_ramp", 500, until)
        passed = await desk.say(verbs.ramp, wish(), 500)

    assert failed[0] == 1
    assert failed[2].startswith(
        "pre_ramp: fail: as scripted (GATE_FAILED)\nnext: nothing changed; fix what the gate reports"
    )
    assert "`sidecar subagent override shop --gate pre_ramp …`" in failed[2]
    assert (held[0], held_json, said["exit_code"]) == (1, 1, 1)
    assert said["problem"] == {
        "message": "pre_ramp: held: it is away (GATE_HELD)",
        "reason": "GATE_HELD",
        "next": "nothing changed; repeat the command once pre_ramp passes"
        " (it gave no valid answer, and an outage cannot be overridden)",
        "uncertain": False,
    }
    assert "next: nothing changed; repeat the command once pre_ramp passes" in held[2]
    assert "`sidecar eval run <config> --record pre_ramp --from PERCENT --to PERCENT`" in pending[2]
    assert "outage" not in pending[2]
    assert (let[0], passed[0]) == (0, 0)
    assert "passed by an operator's override" in passed[1]


async def test_a_ramp_down_waits_for_nobody_and_the_next_raise_for_an_acknowledgement() -> None:
    """A breaker takes it, who may not even read; a person acknowledges what is open, unnamed."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await desk.say(verbs.promote, wish())
        await desk.say(verbs.ramp, wish(), 500)
        desk.role = "breaker"
        down = await desk.say(verbs.ramp_down, wish(), "floor-7")
        unread = await desk.say(show_list)
        desk.role = "operator"
        raised = await desk.say(verbs.ramp, wish(), 500)
        noted = await desk.say(verbs.acknowledge, wish(), "")
        again = await desk.say(verbs.ramp, wish(), 500)

    assert (down[0], "reached: replica, record" in down[1]) == (0, True)
    assert (unread[0], "(ROLE_REQUIRED)\nnext: mint a token with a role that permits this" in unread[2]) == (2, True)
    assert (raised[0], "acknowledge it before the next step" in raised[2]) == (1, True)
    assert (noted[0], "acknowledge breach floor-7 (because a test says so)" in noted[1], again[0]) == (0, True, 0)


async def test_a_roll_back_says_who_takes_its_place_and_an_empty_slot_can_be_filled_again() -> None:
    """`shop2` replaced `shop`; both go back; the confirmation names the successor."""
    async with an_operated_sidecar(gated("shop"), gated("shop2", slot="shop")) as bench:
        desk, no = Desk(bench), Answers(yes=False)
        for name in ("shop", "shop2"):
            await desk.say(verbs.promote, wish(name))
            await desk.say(verbs.ramp, wish(name), 500)
        alone = await desk.say(verbs.roll_back, wish("shop2", yes=False), ask=no)
        code, out, _ = await desk.say(verbs.roll_back, wish("shop2"))
        filled = await desk.say(verbs.activate, wish("shop"))

    assert (alone[0], no.asked) == (2, ["shop2 will be rolled back permanently; shop serves again. Continue?"])
    assert (code, "done: rolled back (" in out) == (0, True)
    assert (filled[0], "(TRANSITION_REFUSED)" in filled[2]) == (1, True)
