"""What the console shows of a real sidecar, over HTTP, and what its forms do."""

import html
import re
from datetime import UTC, datetime, timedelta
from typing import Final

from sidecar.cli.console.rates import Samples, quantile
from sidecar.observability.recorder import MeasuringRecorder
from subagents.admin.v1 import admin_pb2
from subagents.dispatch.v1 import outcome_pb2
from subagents.errors.v1 import error_reason_pb2
from subagents.history.v1 import history_pb2, history_pb2_grpc
from subagents.lifecycle.v1 import reading_pb2
from tests.support.console_visits import a_console
from tests.support.fake_runner import raises
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.requirement import requirement

ALERT: Final = re.compile(r'role="alert">(.*?)<', re.DOTALL)
TAG: Final = re.compile(r"<[^>]*>")


def words(text: str) -> str:
    """Return what a person reads of a page."""
    return " ".join(html.unescape(TAG.sub(" ", text)).split())


async def path_of(bench: OperatedSidecar, step: str, **more: str) -> str:
    """Return the address of the form of a step of `shop`."""
    digest = (await bench.status()).definitions[-1].digest
    query = "".join(f"&{name}={value}" for name, value in more.items())
    return f"/board/shop/step?step={step}&definition=shop&digest={digest}{query}"


async def test_the_board_says_what_is_where_who_is_in_and_what_a_step_would_do() -> None:
    """State, history, an explanation of one user, and the preview of a ramp with its gates."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=2500)
        inside, _ = await bench.inside_and_outside(2500)
        await bench.offers(inside)
        await visitor.sign_in(bench.token("viewer"))
        board = words((await visitor.get("/board")).text)
        slot = words((await visitor.get("/board/shop")).text)
        explained = words((await visitor.get(f"/board/shop?explain=1&user={inside}")).text)
        digest = (await bench.status()).active_digest
        preview = words((await visitor.get(f"/board/shop?preview=1&digest={digest}&ramp=50")).text)
        unknown = await visitor.get("/board/nobody")

    assert "live 25 %" in board
    assert "activated by ada@example (operator): because a test says so" in slot
    assert "chosen" in explained
    assert "From 25 % to 50 %: of 1 recent users" in preview
    assert "Gates needed: pre_ramp" in preview
    assert (unknown.status_code, "there is no slot nobody" in unknown.text) == (502, True)


@requirement("PF1-D-64")
async def test_a_viewer_is_offered_no_step_and_takes_none() -> None:
    """The sidecar refuses it; the page shows why, and what a turn contains stays closed as well."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=2500)
        await bench.sidecar.dispatch(await bench.sidecar.bind(principal="user-20"), "ask_shop")
        await visitor.sign_in(bench.token("viewer"))
        page = await visitor.get("/board/shop")
        refused = await visitor.take(await path_of(bench, "ramp"), percent="50", reason="more")
        turns, turn = await visitor.get("/turns"), await visitor.get("/turns/turn-1")
        ramp = (await bench.status()).definitions[0].ramp_basis_points

    assert "/step?" not in page.text
    assert "ROLE_REQUIRED" in refused.text
    assert ("turn-1" in turns.text, "ROLE_REQUIRED" in turn.text) == (True, True)
    assert ramp == 2500


async def test_a_step_is_checked_taken_once_and_on_record_with_its_reason() -> None:
    """A dry run writes nothing; the same form sent twice counts once; a gate's no is shown."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await visitor.sign_in(bench.token())
        promoted = await visitor.take(await path_of(bench, "promote"), reason="ready")
        path = await path_of(bench, "ramp")
        checked = await visitor.take(path, percent="5", reason="first users", do="check")
        after_check = (await bench.status()).definitions[0].ramp_basis_points
        form = await visitor.get(path)
        taken = await visitor.take(path, percent="5", reason="first users", request_id="console-1")
        again = await visitor.take(path, percent="5", reason="first users", request_id="console-1", revision="2")
        bench.gates.say["pre_ramp"] = None
        held = await visitor.take(path, percent="50", reason="more")
        audit = await bench.audit()

    assert "done: promoted" in words(promoted.text)
    assert ("dry run, nothing was written" in checked.text, after_check) == (True, 0)
    assert "needs the gate pre_ramp" not in words(form.text)  # no ramp is given yet
    assert "done: live 5 %" in words(taken.text)
    assert "REQUEST_ID_REUSED" in again.text or "already taken" in words(again.text)
    assert "GATE_HELD" in held.text
    raises_of_the_ramp = [row for row in audit if row.rollout.kind == reading_pb2.ROLLOUT_EVENT_KIND_RAMP_SET]
    assert [(row.actor, row.reason) for row in raises_of_the_ramp] == [("ada@example", "first users")]


async def test_pause_rollback_and_kill_want_what_the_command_line_wants() -> None:
    """A reason always; a confirmation of what is permanent."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=2500)
        await visitor.sign_in(bench.token())
        paused = await visitor.take(await path_of(bench, "pause"), reason="look closer")
        board = words((await visitor.get("/board")).text)
        resumed = await visitor.take(await path_of(bench, "resume"), reason="all is well")
        silent = await visitor.take(await path_of(bench, "kill"), confirmed="1")
        unconfirmed = [
            await visitor.take(await path_of(bench, step), reason="it hurts") for step in ("kill", "roll-back")
        ]
        before = (await bench.status()).definitions[0].state
        back = await visitor.take(await path_of(bench, "roll-back"), reason="it hurts", confirmed="1")
        after = (await bench.status()).definitions[0].state

    assert "paused at 25 %" in words(paused.text)
    assert "paused at 25 %" in board
    assert "live 25 %" in words(resumed.text)
    assert ALERT.findall(silent.text) == ["Give a reason; it is on record in the audit."]
    assert [ALERT.findall(each.text) for each in unconfirmed] == [["Confirm what the step does."]] * 2
    assert "rolled back" in words(back.text)
    assert (before, after) == (reading_pb2.LIFECYCLE_STATE_PROMOTE, reading_pb2.LIFECYCLE_STATE_ROLLBACK)


async def test_while_the_store_is_away_the_view_of_the_sidecar_is_shown_as_that_and_a_kill_works() -> None:
    """The form of a kill reads nothing, and its answer says what it has reached."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        await bench.promoted(ramp=2500)
        await visitor.sign_in(bench.token())
        path = await path_of(bench, "kill")
        bench.store.away = True
        pages = [words((await visitor.get(each)).text) for each in ("/now", "/board", "/board/shop")]
        killed = words((await visitor.take(path, reason="it hurts", confirmed="1")).text)
        after = words((await visitor.get("/board/shop")).text)
        offered = await bench.offers("user-20")
        refused = words((await visitor.take(path.replace("kill", "activate"), reason="again")).text)

    assert all("This is the view of one sidecar" in page and "live 25 %" in page for page in pages)
    assert "killed at this sidecar; not on record yet" in after
    assert "shop @9aa71472 killed" in after
    assert "STORE_UNAVAILABLE" in refused
    assert "in effect at this sidecar only: killed" in killed
    assert offered == []


async def test_now_shows_rates_by_reason_and_arm_and_leads_to_the_turns_that_failed() -> None:
    """Two readings of the counters make a rate; the reason is a link, and behind it is the waterfall."""
    time = timedelta()

    def now() -> float:
        return time.total_seconds()

    async with an_operated_sidecar() as bench, a_console(bench, monotonic=now) as visitor:
        recorder = MeasuringRecorder(bench.metrics)
        await bench.promoted(ramp=9999)
        bench.sidecar.runner.use("shop", raises(RuntimeError("no")))
        await bench.sidecar.dispatch(await bench.sidecar.bind(principal="user-20"), "ask_shop")
        await visitor.sign_in(bench.token())
        outcome = await _turn_outcome(bench)
        first = words((await visitor.get("/now")).text)
        for definition in ("shop", "shop-2"):
            recorder.call_settled("shop", definition, "active", "failed", outcome)
        recorder.call_settled("shop", "shop", "active", "succeeded", "")
        recorder.child_settled("shop", "failed", 1, 0.2)
        time += timedelta(seconds=10)
        page = (await visitor.get("/now", hx_request="true")).text
        link = re.search(r'href="(/turns\?slot=shop&amp;reason=[^"]*)"', page)
        assert link is not None
        found = await visitor.get(html.unescape(link[1]))
        turn = words((await visitor.get("/turns/turn-1")).text)

    assert "from the next reading on" in first
    assert "shop-2 (active) 0.1 0 0 0.1" in words(page)
    assert "248 ms" in words(page)  # 99 % of the way through the bucket that 0.2 s is in
    assert 'href="/turns/turn-1"' in found.text
    assert outcome in turn
    assert "shop@" in turn


async def _turn_outcome(bench: OperatedSidecar) -> str:
    """Return the reason for which the call of the turn failed."""
    stub = history_pb2_grpc.HistoryServiceStub(bench.channel)
    turn = await stub.GetTurn(history_pb2.GetTurnRequest(turn_id="turn-1"), metadata=bench.role())
    reason: int = turn.dispatches[0].outcomes[0].status.reason
    return error_reason_pb2.ErrorReason.Name(reason).removeprefix("ERROR_REASON_")


async def test_a_sidecar_that_does_not_answer_hides_no_other_and_a_kill_reaches_those_that_do() -> None:
    """Both are on the page; the answer of the kill names the one that it did not reach."""
    async with an_operated_sidecar() as bench:
        own = f"unix:{bench.sidecar.folder / 'operators.sock'}"
        async with a_console(bench, ("unix:/nowhere/o.sock", own)) as visitor:
            await bench.promoted(ramp=2500)
            await visitor.sign_in(bench.token())
            now = words((await visitor.get("/now")).text)
            killed = words((await visitor.take(await path_of(bench, "kill"), reason="bad", confirmed="1")).text)

    assert ("no sidecar answers at unix:/nowhere/o.sock" in now, "takes turns" in now) == (True, True)
    assert "NOT REACHED: unix:/nowhere/o.sock" in killed
    assert "done: killed" in killed


async def test_now_says_what_needs_attention_and_whose_clock_is_wrong() -> None:
    """At the row of the sidecar, which takes turns nevertheless; a clock that is right is not mentioned."""
    async with an_operated_sidecar() as bench, a_console(bench) as visitor:
        bench.clock.time = datetime.now(UTC) - timedelta(minutes=5)
        bench.readiness.attention = ("the record is slow: its last append took 1.2 s",)
        await visitor.sign_in(bench.token())
        behind = words((await visitor.get("/now")).text)
        bench.clock.time = datetime.now(UTC)
        right = words((await visitor.get("/now")).text)

    assert re.search(r"takes turns the record is slow: its last append took 1\.2 s its clock is 30\d s behind", behind)
    assert "its clock" not in right


def reading(count: int, instance: str = "a", durations: tuple[int, ...] = ()) -> admin_pb2.GetTrafficResponse:
    """Return counters of one slot."""
    failed = admin_pb2.CallCount(sub_agent_id="shop", outcome=outcome_pb2.OUTCOME_FAILED, reason="R", count=count)
    slot = admin_pb2.SlotTraffic(sub_agent_id="shop", durations=durations)
    return admin_pb2.GetTrafficResponse(instance_id=instance, calls=[failed], slots=[slot], duration_bounds=[0.5, 1.0])


def test_rates_begin_anew_with_a_new_process_and_add_up_over_sidecars() -> None:
    """A counter that begins at zero again is no negative rate; a sidecar that is silent for long has none."""
    time = timedelta()

    def now() -> float:
        return time.total_seconds()

    samples = Samples(now)
    samples.add("one", reading(10))
    samples.add("two", reading(100))
    time += timedelta(seconds=10)
    samples.add("one", reading(30))
    samples.add("two", reading(110))
    both = samples.rates()["shop"]
    time += timedelta(seconds=10)
    samples.add("one", reading(3, instance="b"))
    restarted = samples.rates()["shop"]

    time += timedelta(seconds=6)
    samples.add("one", reading(5, instance="b", durations=(0, 3)))
    alone = samples.rates()["shop"]
    time += timedelta(seconds=16)

    assert (alone.whole.failed, alone.p99 is not None) == (2, True)
    assert samples.rates() == {}
    assert (both.seconds, both.whole.failed, both.per_second(both.whole.failed)) == (10, 30, 3.0)
    assert restarted.whole.failed == 10
    assert both.whole.reasons == {"R": 30}


def test_durations_of_a_sidecar_with_other_buckets_are_left_out() -> None:
    """While replicas of two versions run, the newest reading decides which buckets count."""
    samples = Samples(lambda: 0.0)
    older = reading(10, durations=(1, 2, 3, 4))
    older.duration_bounds.append(2.0)
    samples.add("older", older)
    samples.add("newer", reading(10, durations=(5, 0, 0)))
    assert samples.rates()["shop"].durations == (0, 0, 0)


def test_a_quantile_is_interpolated_in_its_bucket_and_bounded_by_the_last_one() -> None:
    """Of nothing there is none."""
    bounds = (0.1, 1.0)

    assert quantile((0, 100, 0), bounds, 0.5) == 0.55
    assert quantile((0, 0, 5), bounds) == 1.0
    assert quantile((0, 0, 0), bounds) is None
