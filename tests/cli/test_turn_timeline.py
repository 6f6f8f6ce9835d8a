"""How a turn is drawn, at fixed times."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest

from sidecar.cli.output.drawing import ASCII, Screen, clean, length
from sidecar.cli.output.turn_timeline import Drawing, as_tree, turn_lines
from subagents.dispatch.v1 import outcome_pb2
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import record_pb2
from tests.support.requirement import requirement

BEGIN = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
OUTCOMES = {"succeeded": outcome_pb2.OUTCOME_SUCCEEDED, "failed": outcome_pb2.OUTCOME_FAILED}


def after(seconds: float) -> datetime:
    """Return a time so long after the turn began."""
    return BEGIN + timedelta(seconds=seconds)


def a_child(
    name: str, step: int, events: Sequence[tuple[float, str, str]], parent: str = "", final: str = "completed"
) -> record_pb2.RecordedChild:
    """Return a child of these events: seconds, short name, summary."""
    child = record_pb2.RecordedChild(
        child_id=f"child-{step}",
        sub_agent_id=name,
        emission_index=step,
        parent_child_id=parent,
        contract_json=json.dumps({"sub_agent_id": name}),
    )
    child.opened_at.FromDatetime(after(events[0][0]))
    for number, (seconds, short, summary) in enumerate(events, start=1):
        full = short if short.startswith("integration") or short == "delegated" else f"subagent_{short}"
        details = {"final_status": final} if short == "closed" else {"number": number}
        event = child.events.add(
            child_id=child.child_id,
            sequence=number,
            name=f"agent.{full}",
            actor="EVENT_ACTOR_PARENT" if short in {"closed", "integration_accepted"} else "EVENT_ACTOR_SIDECAR",
            summary=summary,
            details_json=json.dumps(details),
        )
        event.occurred_at.FromDatetime(after(seconds))
    return child


def a_turn(*children: record_pb2.RecordedChild, seconds: float | None = 4.0) -> pb.GetTurnResponse:
    """Return a turn of one dispatch; without `seconds` it is open."""
    state = record_pb2.TURN_STATE_OPEN if seconds is None else record_pb2.TURN_STATE_ENDED
    turn = pb.GetTurnResponse(
        turn=record_pb2.TurnRow(turn_id="turn-1", episode_id="episode-1", principal="user-1", state=state),
        children=children,
    )
    turn.turn.started_at.FromDatetime(BEGIN)
    if seconds is not None:
        turn.turn.ended_at.FromDatetime(after(seconds))
    dispatch = turn.dispatches.add(
        dispatch_id="dispatch-1", call_count=len(children), owner_instance_id="sidecar-1", owner_alive=True
    )
    for child in children:
        failed = "failed" in [event.name.removeprefix("agent.subagent_") for event in child.events]
        outcome = dispatch.outcomes.add(
            child_id=child.child_id,
            outcome=OUTCOMES["failed" if failed else "succeeded"],
            emission_index=child.emission_index,
        )
        outcome.duration.FromTimedelta(timedelta(seconds=1))
    return turn


def drawn(turn: pb.GetTurnResponse, **chosen: Any) -> str:
    """Return the timeline as it is printed without a terminal."""
    out = StringIO()
    given: dict[str, Any] = {"marks": ASCII, "width": 100, "now": after(4)}
    Screen(out, {}).show(turn_lines(turn, Drawing(**(given | chosen))))
    return out.getvalue()


SHOP = a_child(
    "shop",
    0,
    [
        (0.0, "created", "shop created"),
        (0.001, "started", "shop started"),
        (0.002, "attempt", "attempt 1"),
        (0.5, "delegated", "delegated to prices"),
        (2.0, "waiting_for_merge", "succeeded, waits for the parent"),
        (4.0, "integration_accepted", "the parent took the result"),
        (4.0, "closed", "closed: completed"),
    ],
)
REWARDS = a_child(
    "rewards",
    1,
    [(0.0, "created", "rewards created"), (3.0, "failed", "took too long"), (4.0, "closed", "closed: failed")],
    final="failed",
)
PRICES = a_child(
    "prices",
    2,
    [(0.5, "created", "prices created"), (1.5, "waiting_for_merge", "succeeded"), (1.6, "closed", "closed: completed")],
    parent="child-0",
)
GOLDEN = """\
turn turn-1  ended  4.0 s  2026-11-21 10:00:00 UTC
episode episode-1  principal user-1
dispatch dispatch-1: 3 of 3 calls settled, by sidecar-1
                          0                                  4.0 s
0 shop                    ####################--------------------  completed, succeeded, 1.0 s
       +0.000  created               sidecar    shop created
       +0.001  started               sidecar    shop started
       +0.002  attempt               sidecar    attempt 1
       +0.500  delegated             sidecar    delegated to prices
       +2.000  waiting_for_merge     sidecar    succeeded, waits for the parent
       +4.000  integration_accepted  parent     the parent took the result
       +4.000  closed                parent     closed: completed
> 2 prices                .....##########-........................  completed, succeeded, 1.0 s
       +0.500  created               sidecar    prices created
       +1.500  waiting_for_merge     sidecar    succeeded
       +1.600  closed                parent     closed: completed
1 rewards                 ##############################----------  failed, 1.0 s
       +0.000  created               sidecar    rewards created
       +3.000  failed                sidecar    took too long
       +4.000  closed                parent     closed: failed
"""


@requirement("SX-39", "SX-40")
def test_a_turn_is_drawn_as_bars_on_one_axis_with_a_line_for_each_event() -> None:
    """Three children: one that delegates, the one it delegated to under it, one that fails. Plain ASCII."""
    text = drawn(a_turn(SHOP, REWARDS, PRICES))

    assert text == GOLDEN
    assert text.isascii()


@requirement("SX-40")
def test_expanded_it_shows_contracts_and_every_detail() -> None:
    """Pretty-printed under the child and under each event; without `expand` none of it."""
    turn = a_turn(REWARDS)
    turn.narration, turn.close_reason = "Sorry.", outcome_pb2.TURN_CLOSE_REASON_ENDED
    turn.routing_decision.turn_id = "turn-1"
    expanded, condensed = drawn(turn, expand=True), drawn(turn)

    assert expanded.count('"number": ') == 2
    assert '"sub_agent_id": "rewards"' in expanded
    assert "    narration: Sorry.\n" in expanded
    assert '"turn_id": "turn-1"' in expanded
    assert '"' not in condensed


def test_what_did_not_fit_is_said() -> None:
    """How much, and where to look for it."""
    turn = a_turn(REWARDS)
    turn.texts_left_out = 3

    assert "3 long texts and 0 events did not fit" in drawn(turn).splitlines()[-1]


def test_an_open_turn_ends_at_now() -> None:
    """A child that runs has a bar up to the end of the axis, and no outcome yet."""
    running = a_child("shop", 0, [(0.0, "created", "shop created"), (0.1, "started", "shop started")])
    turn = a_turn(running, seconds=None)
    del turn.dispatches[0].outcomes[:]
    lines = drawn(turn, now=after(10), events=False).splitlines()

    assert "open  10.0 s" in lines[0]
    assert "0 of 1 calls settled" in lines[2]
    assert lines[4] == "0 shop                    " + "#" * 40 + "  running"


def test_calls_that_were_never_run_are_named() -> None:
    """Dropped by the cap: no child, so no bar, but a line."""
    turn = a_turn(REWARDS)
    dropped = turn.dispatches[0].outcomes.add(tool_name="ask_x", emission_index=1, outcome=outcome_pb2.OUTCOME_DROPPED)
    dropped.status.message = "Too many."

    assert drawn(turn).splitlines()[-1] == "1 ask_x: dropped, not run. Too many."


def test_what_steers_a_terminal_is_spelled_out() -> None:
    """Escape sequences, line breaks and marks that turn text around, in whatever a sub-agent could name."""
    child = a_child("shop\x1b[2J", 0, [(0.0, "created", "a\nb\u202e")])
    text = drawn(a_turn(child))

    assert "\x1b" not in text
    assert "shop\\x1b[2J" in text
    assert "a\\nb\\u202e" in text
    assert clean("ünïcode 日本") == "ünïcode 日本"


def test_children_that_delegated_to_each_other_are_all_shown() -> None:
    """A record that cannot be; nothing is lost and nothing loops."""
    ring = [
        a_child("a", 0, [(0.0, "created", "x")], parent="child-1"),
        a_child("b", 1, [(0.0, "created", "x")], parent="child-0"),
        a_child("c", 2, [(0.0, "created", "x")], parent="child-of-nobody"),
    ]
    assert sorted(child.sub_agent_id for _, child in as_tree(ring)) == ["a", "b", "c"]


class Terminal(StringIO):
    """Text that is for a person."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def test_a_terminal_gets_colours_and_one_that_wants_none_gets_ascii() -> None:
    """`NO_COLOR` set to anything; without it, other marks and escape sequences of our own."""
    printed = {}
    for no_color in ("", "1"):
        out = Terminal()
        screen = Screen(out, {"NO_COLOR": no_color})
        screen.show(turn_lines(a_turn(REWARDS), Drawing(screen.marks, screen.width, after(4))))
        printed[no_color] = out.getvalue()

    assert printed["1"].isascii()
    assert "█" in printed[""]
    assert "█" not in printed["1"]


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 ms"), (0.0123, "12 ms"), (1, "1.0 s"), (59.9, "59.9 s"), (61, "1 min 1 s")]
)
def test_durations_are_for_people(seconds: float, said: str) -> None:
    """Milliseconds, seconds, minutes."""
    assert length(timedelta(seconds=seconds)) == said
