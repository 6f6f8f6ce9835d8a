"""`sidecar subagent`: kills at several sidecars, waiting, history, why a user gets what, and what cannot be asked."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from sidecar.adapters.rollout_memory import MemoryRollouts
from sidecar.cli.subagent import verbs
from sidecar.cli.subagent.kill import kill
from sidecar.cli.subagent.views import (
    REPLICA_VIEW,
    ExplainOptions,
    HistoryOptions,
    explain,
    preview,
    show_history,
    show_list,
)
from sidecar.core.identifiers import InstanceId
from sidecar.policy.lifecycle import Verdict
from tests.support.operator_desk import INSIDE, Desk, typed, wish
from tests.support.operators import an_operated_sidecar
from tests.support.requirement import requirement


@requirement("PF1-FR-9c", "PF1-FR-9d")
async def test_a_kill_names_the_sidecars_it_reached_and_those_it_did_not(tmp_path: Path) -> None:
    """Two targets, one of them dead: it holds at the other, the exit code says partial, nobody is served."""
    dead = f"unix:{tmp_path / 'dead.sock'}"
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        served = await bench.offers(INSIDE)
        code, out, _ = await desk.say(kill, wish(reason="it tells lies"), targets=(dead, desk.target))
        gone = await bench.offers(INSIDE, turn_id="turn-2")
        again, told = await desk.object(kill, wish(reason="it tells lies", request_id="cli-1"), targets=(desk.target,))
        none = await desk.say(kill, wish(), targets=(dead,))
        killed = [row for row in await bench.audit() if row.HasField("transition") and row.transition.trigger == 3]

    assert (code, served, gone, len(killed)) == (3, ["ask_shop"], [], 1)
    assert f"NOT REACHED: {dead}: no sidecar answers at {dead}" in out
    assert f"\nreached: {desk.target}\n  done: killed (" in out
    assert "reached: replica, flag, record" in out
    assert "next: repeat the command with --request-id cli-1" in out
    assert (again, told["targets"][0]["problem"], told["targets"][0]["result"]["state"]) == (0, None, "rollback")
    assert none[0] == 2


async def test_a_kill_is_confirmed_and_tried_before() -> None:
    """Nobody there: nothing happens; a dry run shows what would be; what nobody is served by is refused."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        refused = await desk.say(kill, wish())
        await bench.promoted(ramp=500)
        alone = await desk.say(kill, wish(yes=False))
        dry = await desk.say(kill, wish(yes=False, dry_run=True))
        state = (await bench.status()).definitions[0].state

    assert (refused[0], "(TRANSITION_REFUSED)" in refused[1]) == (1, True)
    assert (alone[0], "will be removed from every surface immediately" in alone[2]) == (2, True)
    assert (dry[0], "dry run, nothing was written; the step would lead to: killed" in dry[1], state) == (0, True, 3)


async def test_waiting_ends_when_every_living_replica_shows_the_step_and_names_those_that_lag() -> None:
    """One that lives looks late; when it never does it is named, exit code 3. A dead one is not waited for."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        other = MemoryRollouts(bench.clock, bench.contents, InstanceId("the-other"))
        await other.show(0, bench.clock.now())
        dead = MemoryRollouts(bench.clock, bench.contents, InstanceId("the-dead"))
        await dead.show(0, bench.clock.now() - timedelta(minutes=2))

        async def looks() -> None:
            await other.show(await other.version(), bench.clock.now())

        await desk.say(verbs.promote, wish())
        desk.meanwhile = looks
        code, out, _ = await desk.say(verbs.ramp, wish(wait=True), 500)
        desk.meanwhile = None
        late, told = await desk.object(verbs.ramp, wish(wait=True, patience=timedelta(seconds=9)), 900)
        killed = await desk.say(kill, wish(wait=True, patience=timedelta(seconds=9)))

    assert (code, "in effect: every living replica (2) shows version" in out) == (0, True)
    assert (late, len(told["laggards"]), told["steps"][0]["ramp_basis_points"]) == (3, 1, 900)
    assert told["laggards"][0].startswith("the-other shows version ")
    assert desk.passed == pytest.approx(18.5)
    assert (killed[0], "not yet in effect: the-other shows version" in killed[1]) == (3, True)


@requirement("PF1-D-35")
async def test_flags_that_a_person_has_to_switch_are_told_and_waited_for() -> None:
    """A read-only backend: without --wait exit code 3; with it, the step (and its gate) once they are seen."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await desk.say(verbs.promote, wish())
        bench.flags.read_only = True
        code, out, _ = await desk.say(verbs.ramp, wish(), 500)
        at_once = desk.passed
        bench.gates.asked.clear()
        late = await desk.say(verbs.ramp, wish(wait=True, patience=timedelta(seconds=9)), 500)
        asked = len(bench.gates.asked)

        async def switched() -> None:
            bench.flags.on |= {"ai_assistant_subagent_shop": True, "ai_assistant_subagent_shop_cohort": True}

        desk.meanwhile = switched
        done = await desk.say(verbs.ramp, wish(wait=True), 500)
        ramp = (await bench.status()).definitions[0].ramp_basis_points

    assert (code, at_once, late[0], done[0], ramp, asked) == (3, 0.0, 3, 0, 500, 1)
    assert "a flag must be switched in its backend first: set ai_assistant_subagent_shop to True" in out
    assert "NOT taken; next: make the edit" in out
    assert done[1].count("set ai_assistant_subagent_shop to True") == 1
    assert "done: live 5 %" in done[1]


async def test_the_same_request_id_and_revision_repeat_a_step_and_others_are_a_conflict() -> None:
    """What the first attempt printed is enough to repeat it; somebody else's step in between is told."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await desk.say(verbs.promote, wish())
        first = await desk.say(verbs.ramp, wish(), 500)
        again = await desk.say(verbs.ramp, wish(request_id="cli-2", revision=3), 500)
        reused = await desk.say(verbs.ramp, wish(request_id="cli-2", revision=3), 900)
        old = await desk.say(verbs.ramp, wish(revision=3), 900)

    assert "repeat with: --request-id cli-2 --revision 3" in first[1]
    assert (again[0], "already taken with this request id: live 5 %" in again[1]) == (0, True)
    assert (reused[0], "(REQUEST_ID_REUSED)\nnext: omit --request-id" in reused[2]) == (1, True)
    assert (old[0], "(REVISION_CONFLICT)\nnext: nothing changed" in old[2]) == (1, True)


class GoesAway(dict[str, Verdict | None]):
    """Lets the store go away while a gate is asked."""

    def __init__(self, store: MemoryRollouts) -> None:
        super().__init__()
        self._store = store

    def get(self, gate: str, default: Any = None) -> Any:
        """Say what gates say unless told otherwise."""
        self._store.away = True
        return default


async def test_with_the_store_away_a_kill_holds_and_other_steps_say_how_to_repeat_them() -> None:
    """It goes away in the middle of a step; with id and revision the step is taken once when it is back."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await desk.say(verbs.promote, wish())
        bench.gates.say = GoesAway(bench.store)
        lost = await desk.say(verbs.ramp, wish(), 500)
        unread = await desk.say(show_list)
        bench.store.away, bench.gates.say = False, {}
        again = await desk.say(verbs.ramp, wish(request_id="cli-2", revision=3), 500)
        bench.store.away = True
        killed = await desk.say(kill, wish())
        gone = await bench.offers(INSIDE)

    assert (lost[0], "with --request-id cli-2 --revision 3 takes the step at most once" in lost[2]) == (2, True)
    assert (unread[0], unread[1].startswith(REPLICA_VIEW)) == (3, True)
    assert (again[0], "done: live 5 %" in again[1]) == (0, True)
    assert (killed[0], gone) == (3, [])
    assert "  reached: replica, flag\n  warning: the store is unavailable" in killed[1]


@requirement("PF1-D-66")
async def test_why_a_user_gets_a_sub_agent_is_told_now_and_for_the_past_and_whom_a_ramp_would_reach() -> None:
    """Two users on both sides of 5 %; an hour ago it was in dev; ten users were seen lately."""
    async with an_operated_sidecar() as bench:
        desk, before = Desk(bench), bench.clock.now()
        bench.clock.time += timedelta(hours=1)
        await bench.promoted(ramp=500)
        desk.role = "viewer"
        inside = await desk.say(explain, ExplainOptions("shop", INSIDE))
        outside = await desk.say(explain, ExplainOptions("shop", "user-0"))
        past = await desk.say(explain, ExplainOptions("shop", INSIDE, at=before))
        _, told = await desk.object(explain, ExplainOptions("shop", INSIDE))
        for number in (0, 1, 2, 15, 20, 35, 37):
            await bench.offers(f"user-{number}")
        code, seen, _ = await desk.say(preview, "shop", 5000, "")

    assert "slot shop at 2026-11-22 13:00:00 UTC: the user is served by shop\n  bucket 131 of 10000" in inside[1]
    assert "chosen: bucket 131 is inside the ramp of 5 %" in inside[1]
    assert "the user is not served" in outside[1]
    assert "slot shop at 2026-11-22 12:00:00 UTC: the user is not served" in past[1]
    assert "  assumed: " in past[1]
    assert (told["bucket"], told["salt"]) == (131, "shop")
    assert (code, seen.splitlines()[0]) == (0, f"shop {told['served_digest'][7:15]} from 5 % to 50 %")
    assert "of 7 recent users of this sidecar, 4 are inside the ramp now\n" in seen
    assert "  2 would be added, 0 would be removed" in seen


class Heard(StringIO):
    """Output that interrupts who writes to it once it has seen enough, as a person would."""

    def __init__(self, enough: str, begun: Callable[[], Any]) -> None:
        super().__init__()
        self._enough, self._begun = enough, begun

    def flush(self) -> None:
        """Look at what was written."""
        self._begun()
        if self._enough in self.getvalue():
            raise KeyboardInterrupt


async def test_the_history_says_who_did_what_and_why_and_goes_on_if_wished() -> None:
    """A step, a refusal and another step that comes while the history is followed."""
    async with an_operated_sidecar() as bench:
        desk, begun = Desk(bench), asyncio.Event()
        await desk.say(verbs.promote, wish(reason="it is good"), to_test=True)
        await desk.say(verbs.ramp, wish(reason="too early"), 500)
        code, out, _ = await desk.say(show_history, HistoryOptions("shop"))
        _, rows, _ = await desk.say(show_history, HistoryOptions(slot="shop", after=1), as_json=True)
        loop = asyncio.get_running_loop()
        heard = Heard("by ada@example (operator): at last", lambda: loop.call_soon_threadsafe(begun.set))
        following = asyncio.to_thread(show_history, desk.operating(heard, StringIO()), HistoryOptions(follow=True))
        ended, _ = await asyncio.gather(following, _promoted_after(begun, desk))

    assert (code, ended) == (0, 0)
    assert "definition_seen" in out
    assert "in development -> in test  (operator; " in out
    assert "by ada@example (operator): it is good" in out
    assert "refused  0 % -> 5 %  TRANSITION_REFUSED: " in out
    assert [json.loads(row)["sequence"] for row in rows.splitlines()] == ["2", "3"]


async def _promoted_after(begun: asyncio.Event, desk: Desk) -> None:
    await begun.wait()
    await desk.say(verbs.promote, wish(reason="at last"))


async def test_without_a_fitting_token_nothing_is_asked() -> None:
    """None, a wrong role, one of another deployment, and an address where it would be sent unencrypted: exit code 2."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        missing = await desk.say(show_list, token="")
        other = await desk.say(show_list, token=bench.token(aud="elsewhere"))
        open_line = await desk.say(show_list, targets=("sidecar.example:443",))
        desk.role = "automation"
        rolled = await desk.say(verbs.roll_back, wish())
        state = (await bench.status()).definitions[0].state

    assert [each[0] for each in (missing, other, open_line, rolled)] == [2, 2, 2, 2]
    assert missing[2].startswith("there is no role token: mint a token with `sidecar token mint`")
    assert "(ROLE_TOKEN_INVALID)\nnext: mint a token" in other[2]
    assert "would be sent unencrypted" in open_line[2]
    assert ("(ROLE_REQUIRED)" in rolled[2], state) == (True, 1)


async def test_the_command_line_reads_percent_places_and_tokens_as_they_are_typed(tmp_path: Path) -> None:
    """Through every option once; a slip is told before anything is asked."""
    async with an_operated_sidecar() as bench:
        file = tmp_path / "token"
        file.write_text(f"{bench.token()}\n")
        at = ("--target", Desk(bench).target, "--token-file", str(file))
        why = ("--reason", "it is good")
        moved = await asyncio.to_thread(typed, "promote", "shop", *why, *at)
        ramped = await asyncio.to_thread(typed, "ramp", "shop", "0.25%", *why, "--json", *at)
        shown = await asyncio.to_thread(typed, "list", *at[:2], token=bench.token())
    slips = [
        typed("ramp", "shop", "0.001", *why, *at),
        typed("ramp", "shop", "101", *why, *at),
        typed("explain", "shop", "--user", "ada", "--at", "yesterday", *at),
        typed("override", "shop", "--gate", "pre_ramp", "--until", "32d", *why, *at),
        typed("ramp", "shop", "5", *why, "--timeout", "0s", *at),
        typed("ramp", "shop", "5", *at),
        typed("list", *at[:2], "--token-file", str(tmp_path / "absent")),
    ]

    assert (moved[0], json.loads(ramped[1])["steps"][0]["ramp_basis_points"]) == (0, 25)
    assert (shown[0], "0.25 %" in shown[1]) == (0, True)
    assert [code for code, _ in slips] == [2] * 7
    assert "at most two decimals" in slips[0][1]
    code, text = typed("list", token="x")
    assert (code, text.splitlines()[1]) == (78, "the settings cannot be used")
    assert text.startswith("name the sidecar's settings file with --config")
    assert typed("list", "--config", str(tmp_path), token="x") == (78, "the settings cannot be used\n")


async def test_the_environment_may_name_the_sidecar_and_an_option_is_stronger(tmp_path: Path) -> None:
    """Whoever operates one sidecar all day says once where it is; `--target` and `--config` say another one."""
    dead = f"unix:{tmp_path / 'dead.sock'}"
    async with an_operated_sidecar() as bench:
        there, token = Desk(bench).target, bench.token()
        named = await asyncio.to_thread(typed, "list", token=token, target=f"{there}\n")
        other = await asyncio.to_thread(typed, "list", "--target", there, token=token, target=dead)
        away = await asyncio.to_thread(typed, "list", token=token, target=dead)
        settings = await asyncio.to_thread(typed, "list", "--config", str(tmp_path), token=token, target=there)
        nothing = await asyncio.to_thread(typed, "list", token=token)

    assert [named[0], other[0], away[0], settings[0], nothing[0]] == [0, 0, 2, 78, 78]
    assert f"no sidecar answers at {dead}" in away[1]
    assert "or in SIDECAR_TARGET" in nothing[1]


def test_the_help_documents_the_exit_codes() -> None:
    """Of a verb as of the whole."""
    for arguments in (("--help",), ("kill", "--help"), ("decommission", "step", "--help")):
        code, text = typed(*arguments)
        assert (code, "3 partly done" in " ".join(text.split())) == (0, True)
