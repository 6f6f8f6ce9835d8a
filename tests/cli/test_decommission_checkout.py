"""What a checkout still holds is found whatever was confirmed, while a decommission runs and after it has ended."""

from pathlib import Path
from typing import Any

from sidecar.cli.subagent import cleanup
from sidecar.cli.subagent import decommission as verbs
from sidecar.cli.subagent.views import show_list
from sidecar.core.rollout.checkout_inspection import MODULES
from sidecar.core.rollout.decommission_facts import Choice
from tests.support.decommission_bench import CHECKOUTS, DEPRECATED, GONE, Bench, a_bench
from tests.support.operator_desk import Answers, wish
from tests.support.requirement import requirement

NOWHERE = cleanup.CheckoutLocation(CHECKOUTS, None, MODULES)
MODULE = f"{MODULES}/shop.py"


async def said_to_be_gone(bench: Bench) -> None:
    """Let steps 1 to 3 be on record, and the module be there."""
    await bench.patched()
    for _ in range(3):
        await bench.unseen_step()


async def ended_on_a_word(bench: Bench) -> None:
    """Let the decommission end, with all gone but the module."""
    await said_to_be_gone(bench)
    module = (bench.repository.root / MODULE).read_text()
    await bench.patched(through=4)
    bench.repository.put({MODULE: module})
    bench.repository.commit("it was needed after all")
    for matter in ("evals", "tools"):
        await bench.say(verbs.decide, wish(), matter, Choice.RETAIN)
    await bench.unseen_step()
    await bench.unseen_step()


@requirement("PF1-FR-6b", "PF1-AC-7b")
async def test_a_word_does_not_stand_against_what_the_checkout_says(tmp_path: Path) -> None:
    """Step 3 with a word and a checkout that has the module: refused; without it, word and finding are on record."""
    async with a_bench(tmp_path) as bench:
        await bench.patched()
        await bench.step()
        await bench.step()
        there = await bench.step(word="looked")
        await bench.patched()
        gone = await bench.step(word="looked in the image, too")

    assert there[0] == 1
    assert f"remaining:\n  {MODULE}: a Python module of it\nnext: `sidecar subagent decommission patch" in there[2]
    assert gone[0] == 0
    assert "confirmed: no Python module of it is left (configuration repository, commit " in gone[1]
    assert "); looked in the image, too\n" in gone[1]


@requirement("PF1-FR-6b", "PF1-AC-7b")
async def test_a_step_finds_what_a_step_before_it_left_and_the_patch_removes_it(tmp_path: Path) -> None:
    """The module is only said to be gone: step 4 finds it, its patch deletes it with the blocks, then it is taken."""
    async with a_bench(tmp_path) as bench:
        await said_to_be_gone(bench)
        blocks = await bench.step()
        ahead = await bench.step(5)
        changed = await bench.patched()
        taken = await bench.step()

    assert blocks[0] == 1
    assert f"  {MODULE}: a Python module of it\n" in blocks[2]
    assert "next: `sidecar subagent decommission patch shop` writes the change\n" in blocks[2]
    assert "next: `sidecar subagent decommission patch shop --through 5` writes the change\n" in ahead[2]
    assert f"D\t{MODULE}" in changed.splitlines()
    assert taken[0] == 0


async def test_code_that_is_deprecated_for_a_while_holds_no_later_step_up(tmp_path: Path) -> None:
    """As long as it is marked so; a patch for later steps deletes none of it, and step 3 is still taken again."""
    async with a_bench(tmp_path) as bench:
        await bench.patched()
        await bench.step()
        await bench.step()
        await bench.patched(code=DEPRECATED)
        await bench.step(code=DEPRECATED)
        changed = await bench.patched()
        blocks = await bench.step()
        again = await bench.step(3)

    assert changed == "M\tagent_config.yaml\nD\tprompts/components/shop/persona-shop.yaml"
    assert (blocks[0], again[0]) == (0, 1)
    assert f"{MODULE}: a Python module of it\n" in again[2]


@requirement("PF1-AC-7b", "PF1-D-67")
async def test_what_is_left_of_a_decommission_that_has_ended_is_named_until_it_is_gone(tmp_path: Path) -> None:
    """It ended on a word: `overdue` fails with the file, also from a record; a repeated step, too; a patch mends it."""
    async with a_bench(tmp_path) as bench:
        await ended_on_a_word(bench)
        unseen = await bench.say(cleanup.overdue, NOWHERE)
        found = await bench.say(cleanup.overdue, bench.at)
        _, told = await bench.desk.object(cleanup.overdue, bench.at)
        (tmp_path / "shop.json").write_text((await bench.say(verbs.show_one, "shop", as_json=True))[1])
        recorded = cleanup.CheckoutLocation(CHECKOUTS, bench.repository.root, MODULES, tmp_path / "shop.json")
        offline = await bench.say(cleanup.overdue, recorded, targets=("unix:/nowhere",), token="")
        repeated = await bench.step(5)
        changed = await bench.patched()
        mended = await bench.say(cleanup.overdue, bench.at)

    assert unseen[:2] == (0, "no decommission is overdue\n")
    assert (found[0], offline[:2]) == (1, found[:2])
    assert "shop: its decommission ended 2026-11-22, but the checkout (commit " in found[1]
    assert f"  {MODULE}: a Python module of it\n" in found[1]
    assert (told["exit_code"], told["overdue"], told["ended"][0]["left_in_checkout"]) == (1, [], [left(MODULE)])
    assert (repeated[0], MODULE in repeated[2]) == (1, True)
    assert changed == f"D\t{MODULE}"
    assert mended[:2] == (0, "no decommission is overdue\n")


def left(path: str) -> dict[str, Any]:
    """Return how a module that is left looks to programs."""
    return {"step": "modules", "where": path, "what": "a Python module of it"}


async def test_files_of_an_id_that_is_used_anew_are_not_left_over(tmp_path: Path) -> None:
    """The decommission of one digest ended; another definition goes by its id now, and the module is its."""
    async with a_bench(tmp_path) as bench:
        await ended_on_a_word(bench)
        bench.repository.git("checkout", "main", "--", ".")
        bench.repository.edit(("role: native\n    model: nano", "role: native\n    model: single"))
        await bench.merged()
        code, out, _ = await bench.say(cleanup.overdue, bench.at)
        _, table, _ = await bench.say(show_list)

    assert table.count("shop@") == 2
    assert (code, out) == (0, "no decommission is overdue\n")


async def test_a_step_that_is_only_planned_is_not_said_to_be_done(tmp_path: Path) -> None:
    """Out of order, and not confirmed: what is printed before the answer claims nothing."""
    async with a_bench(tmp_path) as bench:
        early = await bench.unseen_step(3, "ok")
        asked = await bench.say(verbs.step, wish(yes=False), NOWHERE, 3, GONE, "ok", ask=Answers(yes=False))

    assert (early[0], asked[0]) == (1, 2)
    for out in (early[1], asked[1]):
        assert out.startswith("shop: record step 3 (modules) as done; confirmed: ok\n")
        assert "is done" not in out
    assert "step 3 (modules) of shop is out of order" in early[2]
