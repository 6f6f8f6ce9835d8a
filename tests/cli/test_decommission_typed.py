"""`sidecar subagent decommission` as it is typed: every command with its options, slips, and help."""

import asyncio
from pathlib import Path

from sidecar.core.rollout.states import LifecycleState
from tests.support.checkouts import a_repository
from tests.support.operator_desk import Desk, typed
from tests.support.operators import an_operated_sidecar, gated


async def test_a_decommission_is_typed_from_begin_to_undo(tmp_path: Path) -> None:
    """Every command of it once; slips are told before anything is asked."""
    repository = a_repository(tmp_path / "config")
    where, record = ("--checkout", str(repository.root)), tmp_path / "record.json"
    why = ("--reason", "nobody needs it", "--yes")
    async with an_operated_sidecar(gated("shop"), gated("rewards")) as bench:
        await bench.put(bench.facts(LifecycleState.ROLLBACK))
        at = ("--target", Desk(bench).target)

        async def say(*arguments: str) -> tuple[int, str]:
            return await asyncio.to_thread(typed, "decommission", *arguments, *at, token=bench.token())

        said = [
            await say("begin", "shop", *why),
            await say("decide", "shop", "evals", "retain", *why),
            await say("list", "--all"),
            await say("patch", "shop", *where, "--through", "2", "--out", str(tmp_path / "one.patch")),
            await say("step", "shop", "3", *why, "--confirm", "looked", "--deprecate-modules"),
            await say("overdue", *where),
            await say("status", "shop", "--json"),
            await say("undo", "shop", *why),
        ]
    record.write_text(said[6][1])
    offline = typed("decommission", "patch", "shop", *where, "--record", str(record), "--remove-entry")
    slips = [
        typed("decommission", "decide", "shop", "evals", "keep", *why, *at),
        typed("decommission", "step", "shop", "6", *why, *at),
        typed("decommission", "begin", "shop", *at),
    ]

    assert [code for code, _ in said] == [0, 0, 0, 0, 1, 0, 0, 0]
    assert "step 3 (modules) of shop is out of order" in said[4][1]
    assert "status: deprecated" in (tmp_path / "one.patch").read_text()
    assert (offline[0], "-  - id: shop\n" in offline[1]) == (0, True)
    assert [code for code, _ in slips] == [2, 2, 2]


def test_the_help_teaches_the_five_steps() -> None:
    """In order, with what undoes it and what fails when a window has passed."""
    _, text = typed("decommission", "--help")
    told = " ".join(text.split())
    places = [told.index(each) for each in ("1 entry", "2 references", "3 modules", "4 blocks", "5 evals and tools")]
    assert places == sorted(places)
    assert "`undo` is possible until code is deleted" in told
    assert "`overdue` fails if a window has passed" in told
    _, step = typed("decommission", "step", "--help")
    assert "3 partly done" in " ".join(step.split())
