"""`sidecar subagent list` and `show` while the store is away, and a list that is watched."""

import json
from dataclasses import replace

from sidecar.cli.subagent import verbs
from sidecar.cli.subagent.kill import kill
from sidecar.cli.subagent.views import REPLICA_VIEW, OperatorCommands, show_list, show_slot
from tests.support.operator_desk import Desk, wish
from tests.support.operators import an_operated_sidecar
from tests.support.requirement import requirement


@requirement("PF1-D-63")
async def test_while_the_store_is_away_list_and_show_say_what_this_replica_serves() -> None:
    """Marked on the screen, for programs and by the exit code; what was killed meanwhile is shown as killed."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=2500)
        _, whole, _ = await desk.say(show_list)
        bench.store.away = True
        code, listed, errors = await desk.say(show_list)
        shown = await desk.say(show_slot, "shop")
        unknown, _, refusal = await desk.say(show_slot, "rewards")
        _, as_object = await desk.object(show_list)
        _, slot = await desk.object(show_slot, "shop")
        await desk.say(kill, wish())
        _, after, _ = await desk.say(show_list)
        bench.store.away = False
        _, record = await desk.object(show_list)

    marked, *rest = listed.splitlines()
    assert (code, marked, errors) == (3, REPLICA_VIEW, "")
    assert "live 25 %" in rest[1]
    assert REPLICA_VIEW not in whole
    assert (shown[0], shown[1].splitlines()[0]) == (3, REPLICA_VIEW)
    assert (unknown, "STORE_UNAVAILABLE" in refusal) == (2, True)
    assert [each["replica_view"] for each in (as_object, slot, record)] == [True, True, False]
    assert "killed" in after.splitlines()[2]


async def test_a_watched_list_shows_each_change_and_outlives_the_store() -> None:
    """One object a line, every two seconds, until it is interrupted."""
    async with an_operated_sidecar() as bench:
        desk, pauses = Desk(bench), []
        await desk.say(verbs.promote, wish("shop"))

        def watch(commands: OperatorCommands) -> int:
            def pause(seconds: float) -> None:
                pauses.append(seconds)
                bench.store.away = len(pauses) == 1
                if len(pauses) > 2:
                    raise KeyboardInterrupt

            return show_list(replace(commands, pause=pause), watch=True)

        code, out, _ = await desk.say(watch, as_json=True)

    assert (code, pauses) == (0, [2.0, 2.0, 2.0])
    assert [json.loads(line)["replica_view"] for line in out.splitlines()] == [False, True, False]
