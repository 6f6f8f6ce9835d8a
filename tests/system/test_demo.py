"""`make demo`, as a person would run it: what it shows, and that it leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from examples.consumer_agent.history import Message, Role, ToolUse, broken_rules
from tests.support.requirement import requirement
from tests.support.running_demo import RunningDemo, running_demo
from tests.support.whole_demo import CANARY, WholeDemo

pytestmark = pytest.mark.system

TITLE: Final = re.compile(r"conversation (\d) of 8 · ")
"""How each turn begins on the screen."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a whole demo showed.

    Attributes:
        code: its exit code.
        turns: the text of each turn, by its number.
        recorded: the text of each turn's timeline and routing decision, by its number.
        logs: what the processes wrote, by file name.
        left: processes that were still there.
    """

    code: int
    turns: Mapping[int, str]
    recorded: Mapping[int, str]
    logs: Mapping[str, str]
    left: Mapping[int, str]


@pytest.fixture(scope="module")
def shown(whole_demo: WholeDemo) -> Shown:
    """The conversation of it, turn by turn."""
    chat, _, record = whole_demo.text.partition("what the sidecar recorded")
    record = record.partition("\ndone ──")[0]
    recorded = _parts(re.compile(r"(?m)^ (\d)  "), record)
    logs = {**whole_demo.logs, "screen": whole_demo.text}
    return Shown(whole_demo.code, _parts(TITLE, chat), recorded, logs, whole_demo.left)


def _parts(beginning: re.Pattern[str], text: str) -> Mapping[int, str]:
    _, *pieces = beginning.split(text)
    return {int(number): piece for number, piece in zip(pieces[::2], pieces[1::2], strict=True)}


def test_the_demo_goes_by_its_script_and_leaves_nothing_behind(shown: Shown) -> None:
    """It checks itself; its exit code says so, and no process is left."""
    assert "8 of 8 turns followed the script" in shown.logs["screen"]
    assert shown.code == 0
    assert shown.left == {}


def test_the_model_is_named_as_what_it_is(shown: Shown) -> None:
    """Nobody is to believe that an LLM is at work."""
    assert "offline rule-based model, not an LLM" in shown.logs["screen"]


def test_sub_agents_have_users_of_their_own_if_root_runs_it(whole_demo: WholeDemo) -> None:
    """Only root can start processes of other users: without it, one line says so."""
    users, me = dict(whole_demo.users), os.geteuid()
    assert users.pop("the sidecar") == me
    hosts = [user for name, user in users.items() if name.startswith("sub-agent host: ")]
    if me == 0:
        assert len({*hosts, me}) == 5
        assert f"Each sub-agent runs as a user of its own ({', '.join(map(str, hosts))})" in whole_demo.text
    else:
        assert hosts == [me] * 4
        assert "The sub-agents run as the same user as the sidecar: only root can" in whole_demo.text


@requirement("PC1-FR-3a", "PC1-FR-3b", "PC1-FR-3c", "PC2-FR-2a")
def test_a_single_intent_is_one_tool_call(shown: Shown) -> None:
    """Offers on coffee: `ask_shop` and nothing else; text for the answer, and a card apart from it."""
    assert re.findall(r"→ (\w+)\(", shown.turns[1]) == ["ask_shop"]
    answer = _after(shown.turns[1], "shop     ✓ answered")
    assert ", 1 card" in answer
    assert "10 % back on coffee beans at Harbour Roasters (300 points)" in answer
    assert "offer_id" not in answer


@requirement("PC2-FR-6a", "PC2-FR-15b", "PC2-FR-15c")
def test_a_mixed_message_is_answered_by_two_sub_agents_at_the_same_time(shown: Shown) -> None:
    """Points and offers: both bars begin at the same time, the answer has both."""
    assert re.findall(r"→ (\w+)\(", shown.turns[2]) == ["ask_rewards", "ask_shop"]
    assert "(bronze tier)" in shown.turns[2]
    assert "running shoes" in shown.turns[2]
    assert "2 calls, cap 3 (within) · intents 2 declared, 2 called" in shown.recorded[2]


@requirement("PC2-FR-5b")
def test_after_a_switch_the_sub_agent_knows_what_was_talked_about(shown: Shown) -> None:
    """Of the user's two orders, support names the one with the coffee of the first turn."""
    assert "intent switch" in shown.recorded[3]
    assert "coffee beans" in _after(shown.turns[3], "support  ✓ answered")
    assert "groceries" not in _after(shown.turns[3], "support  ✓ answered")


@requirement("PC1-FR-13b", "PC1-FR-13c")
def test_progress_comes_typed_and_is_shown_in_words(shown: Shown) -> None:
    """Four places searched by one sub-agent, points looked up by the other; no identifier is shown to the user."""
    progress = re.findall(r"… (Looking.*|Checking.*)", shown.turns[4])
    assert len(progress) == 5
    assert "Looking for offers at City Aquarium…" in progress
    assert "4 reports" in shown.recorded[4]


@requirement("PC1-FR-5a", "PC2-FR-8a", "PC2-FR-15e")
def test_a_failing_sub_agent_costs_its_own_part_only(shown: Shown) -> None:
    """Rewards raises: shop's answer is used, the user hears what is missing, and nothing of the exception."""
    assert "rewards  ✗ failed" in shown.turns[5]
    assert "headphones at Sound & Sons" in shown.turns[5]
    assert "sorry, I could not find that out just now" in shown.turns[5]
    assert "failed · RUNNER_FAILED" in shown.recorded[5]
    assert "PlantedDefect" in shown.logs["host-rewards.log"]
    assert "PlantedDefect" not in shown.logs["screen"]
    assert "PlantedDefect" not in shown.logs["sidecar.log"]


@requirement("PC2-FR-12b", "PC2-FR-12d", "PC2-AC-6a")
def test_the_data_of_somebody_else_is_withheld_and_counted(shown: Shown) -> None:
    """The data service answers as another user: degraded, the counter goes from 0 to 1, and not a byte shows up."""
    counter = re.findall(r"/metrics (?:before|after): +ps6_envelope_principal_mismatch_total\S+ (\S+)", shown.turns[6])
    assert [float(value) for value in counter] == [0.0, 1.0]
    assert "rewards  ◐ answered without the data it needed" in shown.turns[6]
    assert "cannot be looked up at the moment" in shown.turns[6]
    assert [name for name, text in shown.logs.items() if CANARY in text] == []
    assert {"sidecar.log", "host-rewards.log", "data-service.log"} <= shown.logs.keys()


@requirement("PC2-AC-4a", "PC2-FR-15d")
def test_a_call_beyond_the_cap_is_dropped_and_the_user_is_told(shown: Shown) -> None:
    """Four calls at cap 3: the last one is not run, the answer says so."""
    assert len(re.findall(r"→ \w+\(", shown.turns[7])) == 4
    assert "support  ⊘ dropped" in shown.turns[7]
    assert "I left it for later" in shown.turns[7]
    assert re.search(r"support +not run +⊘ dropped · OVER_CAP", shown.recorded[7])
    assert "4 calls, cap 3 (over)" in shown.recorded[7]


@requirement("PC2-FR-15a")
def test_a_turn_without_calls_is_on_record_too(shown: Shown) -> None:
    """Small talk: no bar, but candidates, cap and intents."""
    assert "no calls" in shown.recorded[8]
    assert "travel killed" in shown.recorded[8]
    assert "0 calls, cap 3 (within)" in shown.recorded[8]


@pytest.mark.parametrize(
    ("at", "stop"),
    [
        ("host: shop", signal.SIGINT),
        ("conversation 1 of 2", signal.SIGTERM),
        ("$ sidecar subagent ramp", signal.SIGTERM),
        ("(while travel works for mia)", signal.SIGINT),
    ],
)
def test_a_stop_in_the_middle_stops_everything(at: str, stop: signal.Signals) -> None:
    """While it starts, in the conversation, in a command and while a turn waits: exit code 130, no process is left."""
    with running_demo({}) as demo:
        demo.read_until(at)
        demo.process.send_signal(stop)
        assert demo.read_to_the_end() == 130
        assert demo.started() == {}
        assert "no process is left running" in demo.text


def test_held_it_runs_until_it_is_stopped() -> None:
    """With HOLD=1 everything still runs at the end; the shown commands bind a turn, and list what was rolled out."""
    with running_demo({"HOLD": "1"}) as demo:
        demo.read_until("until Ctrl-C")
        demo.read_until("sidecar.log")
        assert sum("sidecar serve" in command for command in demo.started().values()) == 1
        by_hand = next(line for line in demo.lines if line.startswith("buf curl"))
        assert '"ask_shop"' in subprocess.check_output(
            ["sh", "-c", by_hand], env=_with_our_tools(), text=True, timeout=30
        )
        listed = next(line for line in demo.lines if line.startswith("SIDECAR_TARGET="))
        assert re.search(
            r"travel +travel +killed", subprocess.check_output(["sh", "-c", listed], text=True, timeout=300)
        )
        demo.process.send_signal(signal.SIGINT)
        assert demo.read_to_the_end() == 130
        assert demo.started() == {}


@pytest.mark.real_start
def test_a_killed_demo_leaves_nothing_either() -> None:
    """SIGKILL leaves the demo no time to tidy up; its watchdog does it, and removes the folder."""
    with running_demo({}) as demo:
        demo.read_until("rollout 2 of 5")
        folder = _folder_of(demo)
        # The demo, its watchdog, two services, four hosts, the sidecar; a command that was typed may run beside them.
        assert len(demo.started()) >= 9
        demo.process.kill()
        assert demo.left_when_gone() == {}
        assert not folder.exists()


def test_a_sidecar_that_cannot_start_ends_the_demo() -> None:
    """A setting that nobody claims keeps the sidecar from starting: exit code 1, the end of its log on the screen."""
    with running_demo({"SIDECAR__DISPATCH__FAN_OUT_CAPP": "3"}) as demo:
        assert demo.read_to_the_end() == 1
        assert "fan_out_capp" in demo.text
        assert demo.started() == {}


USER: Final = Message(Role.USER, "hi")
CALL: Final = Message(Role.ASSISTANT, "one moment", [ToolUse("c1", "ask_shop", {})])
ANSWER: Final = Message(Role.TOOL, "found", call_id="c1")


@pytest.mark.parametrize(
    ("history", "rule"),
    [
        ([USER, CALL], "before the answers to c1"),
        ([USER, CALL, USER], "before the answers to c1"),
        ([USER, CALL, ANSWER, ANSWER], "no open call"),
        ([USER, ANSWER], "no open call"),
        ([USER, CALL, ANSWER, CALL, ANSWER], "again"),
        ([CALL, ANSWER], "not the user's"),
        ([USER, Message(Role.ASSISTANT, "")], "is empty"),
    ],
)
def test_the_demo_would_notice_a_history_that_providers_refuse(history: list[Message], rule: str) -> None:
    """Each rule broken once; the same history without the break is let through."""
    assert any(rule in broken for broken in broken_rules(history))
    assert list(broken_rules([USER, CALL, ANSWER, Message(Role.ASSISTANT, "done")])) == []


def _after(text: str, beginning: str) -> str:
    return text.partition(beginning)[2]


def _with_our_tools() -> dict[str, str]:
    """Return the environment in which `buf` of this virtual environment is found."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def _folder_of(demo: RunningDemo) -> Path:
    found = re.search(r"unix:(\S+)/shop/hosts/host\.sock", demo.text)
    assert found is not None
    return Path(found[1])
