"""`sidecar subagent decommission`: a sidecar, a real configuration repository, and an operator between the two."""

import asyncio
import json
import re
import shlex
import subprocess
from datetime import timedelta
from pathlib import Path

from sidecar.cli.subagent import cleanup
from sidecar.cli.subagent import decommission as verbs
from sidecar.cli.subagent.views import HistoryOptions, show_history, show_list, show_slot
from sidecar.core.rollout.checkout_inspection import MODULES
from sidecar.core.rollout.decommission_facts import Choice
from tests.support.checkouts import applied
from tests.support.decommission_bench import CHECKOUTS, DEPRECATED, GONE, a_bench
from tests.support.operator_desk import Answers, wish
from tests.support.requirement import requirement


@requirement("PF1-FR-6a", "PF1-FR-6b", "PF1-FR-6d", "PF1-AC-7a")
async def test_one_decommission_from_begin_to_end(tmp_path: Path) -> None:
    """Patch, merge, step, five times over; the entry stays for a while, deprecated; in the end nothing is left."""
    async with a_bench(tmp_path) as bench:
        first = await bench.patched()
        marked = [await bench.step(), await bench.step()]
        waiting = (bench.repository.root / "agent_config.yaml").read_text()
        second = await bench.patched()
        marked.append(await bench.step())
        third = await bench.patched()
        marked.append(await bench.step())
        for matter in ("evals", "tools"):
            await bench.say(verbs.decide, wish(), matter, Choice.REMOVE)
        fourth = await bench.patched()
        marked.append(await bench.step())
        _, listed, _ = await bench.say(verbs.show_all, finished=False)
        _, status, _ = await bench.say(verbs.show_one, "shop")

    assert [code for code, _, _ in marked] == [0] * 5
    assert "    status: deprecated\n" in waiting
    assert (first, second) == ("M\tagent_config.yaml", f"D\t{MODULES}/shop.py")
    assert third == "M\tagent_config.yaml\nD\tprompts/components/shop/persona-shop.yaml"
    assert fourth == "M\tagent_config.yaml\nM\tevaluation_manifest.yaml"
    assert listed == "no decommission is in progress\n"
    assert "  x 3 (modules), code gone: " in status
    assert "no Python module of it is left (configuration repository, commit " in status
    assert "its eval suite and tools are removed as decided (configuration" in status
    assert "  next: nothing; the decommission has ended\n" in status


@requirement("PF1-FR-6b")
async def test_a_module_that_is_there_or_only_marked_is_found_in_the_checkout(tmp_path: Path) -> None:
    """Refused with file and line, then deprecated for a while, then deleted; each time the checkout is looked at."""
    async with a_bench(tmp_path) as bench:
        await bench.patched()
        await bench.step()
        await bench.step()
        there, _, said = await bench.step()
        await bench.patched(code=DEPRECATED)
        only_marked, _, _ = await bench.step()
        marked, out, _ = await bench.step(code=DEPRECATED)
        _, status, _ = await bench.say(verbs.show_one, "shop")
        await bench.patched(through=3, code=GONE)

    assert (there, only_marked, marked) == (1, 1, 0)
    assert f"  {MODULES}/shop.py: a Python module of it\n" in said
    assert "confirmed: its Python modules are marked deprecated (configuration repository, commit " in out
    assert "code deprecated" in status
    assert "remaining: its Python modules are only deprecated: delete them, and repeat step 3" in status


@requirement("PF1-FR-6c", "PF1-FR-6e")
async def test_what_is_retained_stays_and_what_is_removed_has_to_be_gone(tmp_path: Path) -> None:
    """Evals removed, tools kept: the patch takes the evaluations only, and step 5 is refused while one is there."""
    async with a_bench(tmp_path) as bench:
        await bench.patched(through=4)
        for _ in range(4):
            await bench.step()
        undecided = await bench.step()
        await bench.say(verbs.decide, wish(), "evals", Choice.REMOVE)
        await bench.say(verbs.decide, wish(reason="others may want it"), "tools", Choice.RETAIN)
        there = await bench.step()
        changed = await bench.patched()
        ended = await bench.step()
        config = (bench.repository.root / "agent_config.yaml").read_text()

    assert undecided[0] == 1
    assert "no decision yet about the evals and tools of shop" in undecided[2]
    assert there[0] == 1
    assert "evaluation_manifest.yaml: evaluations of it at categories.0" in there[2]
    assert (changed, ended[0], "- id: search_offers" in config) == ("M\tevaluation_manifest.yaml", 0, True)


@requirement("PF1-AC-7b", "PF1-D-67")
async def test_what_is_overdue_is_named_down_to_the_file(tmp_path: Path) -> None:
    """Before the end of the window exit code 0; then 1: entry, reference, module, block, tool, pending decision."""
    async with a_bench(tmp_path) as bench:
        await bench.say(verbs.decide, wish(), "tools", Choice.REMOVE)
        early = await bench.say(cleanup.overdue, bench.at)
        bench.sidecar.clock.time += timedelta(days=91)
        code, out, _ = await bench.say(cleanup.overdue, bench.at)
        _, said = await bench.desk.object(cleanup.overdue, bench.at)
        _, table, _ = await bench.say(show_list)
        _, listed, _ = await bench.say(verbs.show_all, finished=False)
        await bench.patched(through=4)
        _, later, _ = await bench.say(cleanup.overdue, bench.at)

    assert early == (0, "no decommission is overdue\n", "")
    assert code == 1
    for line in (
        "shop: overdue since 2027-02-20\n",
        "  no decision yet about its evals: retain or remove\n",
        ": the entry of shop\n",
        ": concierge names it in `sub_agents`\n",
        f"  {MODULES}/shop.py: a Python module of it\n",
        "  prompts/components/shop/persona-shop.yaml: the prompt block persona-shop, which no other definition uses\n",
        "  agent_config.yaml: the tool search_offers, which no other definition uses\n",
    ):
        assert line in out
    assert (said["exit_code"], said["overdue"][0]["left_in_checkout"][0]["step"]) == (1, "entry")
    assert "decommission of shop: OVERDUE since 2027-02-20; step 1 (entry) is next; undecided: evals\n" in table
    assert "2027-02-20 OVERDUE" in listed
    assert "a Python module of it" not in later
    assert "the tool search_offers" in later


async def test_status_as_json_is_a_record_that_patch_and_overdue_read_without_a_sidecar(tmp_path: Path) -> None:
    """Taken to another machine: the same patch; of another sub-agent, or garbage: told so."""
    async with a_bench(tmp_path) as bench:
        record = tmp_path / "shop.json"
        _, out, _ = await bench.say(verbs.show_one, "shop", as_json=True)
        record.write_text(out)
        away = {"targets": ("unix:/nowhere",), "token": ""}
        at = cleanup.CheckoutLocation(CHECKOUTS, bench.repository.root, MODULES, record)
        _, online, _ = await bench.say(cleanup.patch, cleanup.PatchOptions("shop"), bench.at)
        code, offline, _ = await bench.say(cleanup.patch, cleanup.PatchOptions("shop"), at, **away)
        other = await bench.say(cleanup.patch, cleanup.PatchOptions("rewards"), at, **away)
        late = await bench.say(cleanup.overdue, at, **away)
        record.write_text("[]")
        garbage = await bench.say(cleanup.overdue, at, **away)

    assert (code, offline) == (0, online)
    assert (other[0], "is for shop, not rewards" in other[2]) == (2, True)
    assert late[0] == 0
    assert (garbage[0], "is not the output of `sidecar subagent decommission status" in garbage[2]) == (2, True)


async def test_a_patch_goes_to_a_file_and_the_checkout_stays_as_it_is(tmp_path: Path) -> None:
    """Written to a file outside; what it does is told; a second one finds nothing to change."""
    async with a_bench(tmp_path) as bench:
        to = tmp_path / "shop.patch"
        code, out, errors = await bench.say(cleanup.patch, cleanup.PatchOptions("shop", to=to), bench.at)
        clean = bench.repository.git("status", "--porcelain")
        applied(bench.repository, to.read_text())
        _, again, nothing = await bench.say(cleanup.patch, cleanup.PatchOptions("shop"), bench.at)

    assert (code, out, clean) == (0, "", "")
    assert "marks shop `status: deprecated`\ntakes shop off `sub_agents` of concierge\n" in errors
    assert (again, nothing) == ("", "nothing to change: the checkout already contains the change\n")


async def test_the_command_that_is_named_applies_the_patch_from_where_it_was_asked_for(tmp_path: Path) -> None:
    """The checkout is another folder, and the patch lies outside of it."""
    async with a_bench(tmp_path) as bench:
        to = tmp_path / "shop.patch"
        _, _, errors = await bench.say(cleanup.patch, cleanup.PatchOptions("shop", to=to), bench.at)
        (named,) = re.findall(r"next: run `(.*)` on a branch", errors)
        await asyncio.to_thread(subprocess.run, shlex.split(named), check=True)
        assert "agent_config.yaml" in bench.repository.git("status", "--porcelain")


async def test_what_no_sidecar_sees_wants_a_checkout_or_words(tmp_path: Path) -> None:
    """Step 3 with neither: not asked. With words: they are on record."""
    async with a_bench(tmp_path) as bench:
        await bench.patched()
        await bench.step()
        await bench.step()
        nowhere = cleanup.CheckoutLocation(CHECKOUTS, None, MODULES)
        bare = await bench.say(verbs.step, wish(), nowhere, 0, GONE, "")
        worded = await bench.say(verbs.step, wish(), nowhere, 0, GONE, "looked at every image")
        _, history, _ = await bench.say(show_history, HistoryOptions("shop"))

    assert bare[0] == 2
    assert "give --checkout DIR" in bare[2]
    assert worded[0] == 0
    assert "decommission modules  3 (modules); gone; word: looked at every image" in history


async def test_dangerous_ones_are_confirmed(tmp_path: Path) -> None:
    """Begin, the step that ends undoing, and undo ask; a no does nothing."""
    no = Answers(yes=False)
    async with a_bench(tmp_path, begun=False) as bench:
        codes = [(await bench.say(verbs.begin, wish(yes=False), ask=no))[0]]
        await bench.say(verbs.begin, wish())
        codes.append((await bench.say(verbs.undo, wish(yes=False), ask=no))[0])
        await bench.patched(through=3)
        await bench.step()
        await bench.step()
        codes.append(
            (await bench.say(verbs.step, wish(yes=False), bench.at, 0, GONE, "", ask=no))[0],
        )
        undone = await bench.say(verbs.undo, wish())
        _, shown, _ = await bench.say(show_slot, "shop")

    assert codes == [2, 2, 2]
    assert [question.split(".")[0] for question in no.asked] == [
        "shop will be removed permanently; the window of its cleanup starts now",
        "The decommission of shop will be undone; the definition stays rolled back",
        "After this step the decommission of shop cannot be undone",
    ]
    assert undone[0] == 0
    assert "decommission" not in shown


async def test_what_has_not_begun_is_told_so(tmp_path: Path) -> None:
    """Status, patch, step and decide of a definition that is only rolled back."""
    async with a_bench(tmp_path, begun=False) as bench:
        said = [
            await bench.say(verbs.show_one, "shop"),
            await bench.say(cleanup.patch, cleanup.PatchOptions("shop"), bench.at),
            await bench.step(1),
            await bench.say(verbs.decide, wish(), "evals", Choice.RETAIN),
        ]
    assert [code for code, _, _ in said] == [1, 1, 1, 1]
    assert all("has not begun" in errors or "has begun" in errors for _, _, errors in said)


async def test_the_slot_and_the_status_say_how_far_it_is(tmp_path: Path) -> None:
    """Who took which step, and what comes next; as JSON, too."""
    async with a_bench(tmp_path) as bench:
        await bench.patched()
        await bench.step()
        _, shown, _ = await bench.say(show_slot, "shop")
        _, status, _ = await bench.say(verbs.show_one, "shop")
        _, said, _ = await bench.say(verbs.show_one, "shop", as_json=True)

    for text in (shown, status):
        assert "begun 2026-11-22 by ada@example: because a test says so\n" in text
        assert "x 1 (entry): 2026-11-22 12:00:00 UTC by ada@example: because a test says so\n" in text
    assert "  next: step 2 (references): `sidecar subagent decommission patch shop` writes the change; " in status
    assert json.loads(said)["decommission"]["next_step"] == "references"
