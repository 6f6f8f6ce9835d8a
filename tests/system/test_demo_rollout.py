"""The second act of `make demo`: a sub-agent is promoted, ramped, held by a gate, rolled back; another one is killed.

What is looked at here is what the real sidecar process, its command line and the turns of eight users showed.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from examples.demo.rollout import QUARTER
from examples.demo.rollout_checks import ASKED, MOVES, audit_deviations, output_deviations, question_deviations
from examples.demo.typed_commands import CommandOutput
from tests.support.requirement import requirement
from tests.support.whole_demo import WholeDemo

pytestmark = pytest.mark.system

STEP: Final = re.compile(r"rollout (\d) of 8 · ")
EVERYBODY: Final = "kim lee ana ben gus mia fay joy".split()


@dataclass(frozen=True, slots=True)
class Shown:
    """What the act showed: its steps by number, and how the demo ended."""

    steps: Mapping[int, str]
    text: str
    code: int

    def words(self, number: int) -> str:
        """Return a step as if lines were not broken, nor marked as what a command printed."""
        return " ".join(self.steps[number].replace("│", "").split())

    def served(self, number: int) -> Sequence[Mapping[str, str]]:
        """Return what each user's turn had, user by user, for every time that it was shown in a step."""
        found: list[dict[str, str]] = []
        for line in self.steps[number].splitlines():
            row = re.match(r" {11}(ask_\w+ now:)? +(\S+) +((?:[a-z]{3} ?)+)$", line)
            if row is None:
                continue
            if row[1]:
                found.append({})
            found[-1] |= dict.fromkeys(row[3].split(), row[2])
        return found


@pytest.fixture(scope="module")
def shown(whole_demo: WholeDemo) -> Shown:
    """The rollout of it, step by step."""
    _, *pieces = STEP.split(whole_demo.text.partition("conversation 1 of 8")[0])
    steps = {int(number): piece for number, piece in zip(pieces[::2], pieces[1::2], strict=True)}
    return Shown(steps, whole_demo.text, whole_demo.code)


def all_have(definition_id: str) -> dict[str, str]:
    """Return what it is if everybody has the same."""
    return dict.fromkeys(EVERYBODY, definition_id)


def test_the_rollout_goes_by_its_script(shown: Shown) -> None:
    """The act checks itself, and the exit code says so."""
    assert "8 of 8 steps followed the script" in shown.text
    assert (shown.code, list(shown.steps)) == (0, [1, 2, 3, 4, 5, 6, 7, 8])


def test_a_new_definition_begins_at_dev_and_a_promotion_alone_gives_it_to_nobody(shown: Shown) -> None:
    """It is in the list beside what it is to replace; in `promote` at 0 % everybody still has that."""
    assert re.search(r"shop +shop-dates +in development", shown.steps[1])
    assert "gate pre_merge: pass: all thresholds met: routing_accuracy 1, switch_accuracy 1" in shown.steps[2]
    assert shown.served(1) == shown.served(2) == [all_have("shop")]


@requirement("PF1-T-10a", "PF1-FR-2d")
def test_a_quarter_of_the_users_has_the_new_one_and_the_others_keep_the_old_one(shown: Shown) -> None:
    """As many as the preview said; one of them is answered by it. The state is `promote`, as before the step."""
    quarter = QUARTER.split()
    assert 0 < len(quarter) < len(EVERYBODY)
    assert f"{len(quarter)} would be added, 0 would be removed" in shown.steps[3]
    assert "done: live 25 %" in shown.steps[3]
    assert shown.served(3) == [all_have("shop") | dict.fromkeys(quarter, "shop-dates")]
    assert re.search(r"coffee beans at Harbour Roasters \(300 points, until 20\d\d", shown.words(3))


@requirement("PF1-AC-3a", "PF1-AC-3b", "PF1-FR-4c", "PC2-T-19")
def test_a_description_that_hurts_routing_is_refused_by_a_gate_and_moves_nobody(shown: Shown) -> None:
    """With the figures that `sidecar eval` measured; who had access keeps it, and nobody else gets it."""
    assert "`sidecar eval run config --slot shop --candidate shop-dates --record pre_ramp" in shown.words(4)
    measured = "routing_accuracy is 0.3231, at least 0.95; switch_accuracy is 0.5, at least 0.95"
    assert f"pre_ramp: fail: {measured} (GATE_FAILED)" in shown.words(4)
    assert "exit code 1" in shown.steps[4]
    assert shown.served(4) == shown.served(3)


@requirement("PF1-FR-12b", "PF1-T-7")
def test_once_the_gate_passes_the_last_step_reaches_everybody(shown: Shown) -> None:
    """On another model, so it began at `dev`, and passed `pre_merge`, `pre_ramp` and `pre_full` on its way."""
    assert "gate pre_full: pass: all thresholds met" in shown.steps[5]
    assert shown.served(5) == [all_have("shop-dates")]
    asked = "shop-dates: pre_merge, pre_ramp 0 % -> 25 %, pre_ramp 25 % -> 50 %, pre_full 25 % -> 100 %;"
    assert f"Requests to the gate service: {asked}" in shown.words(8)


@requirement("PF1-T-8", "PF1-AC-5a", "PF1-AC-5b", "PF1-FR-5b")
def test_from_everybody_back_to_the_recorded_target_within_the_next_turn(shown: Shown) -> None:
    """No process is started or stopped for it; the time is taken and shown, far below five minutes."""
    assert "shop-dates: rollback; shop serves again" in shown.steps[6]
    assert "done: rolled back" in shown.steps[6]
    assert shown.served(6) == [all_have("shop")]
    took = re.search(r"until shop served eight new turns: (\d+\.\d) s", shown.steps[6])
    assert took is not None
    assert float(took[1]) < 300
    assert len(re.findall(r"✓ the sidecar ", shown.text)) == 1


@requirement("PF1-FR-8c", "PF1-FR-7b")
def test_a_turn_after_the_rollback_is_answered_by_the_old_one(shown: Shown) -> None:
    """The same user, the same question: the answer has no date any more."""
    answer = shown.words(6).partition("answered after")[2]
    assert "coffee beans at Harbour Roasters (300 points)." in answer


@requirement("PF1-AC-4b", "PF1-FR-8a", "PF1-FR-8b", "PF1-FR-9c")
def test_a_kill_lets_the_running_turn_finish_and_no_other_begin(shown: Shown) -> None:
    """While travel works for mia it is killed: no new turn has it, and hers is answered by it afterwards."""
    before, _, after = shown.steps[7].partition("$ sidecar subagent kill travel")
    has = dict.fromkeys(("ana", "ben", "gus", "mia"), "travel")
    assert shown.served(7) == [all_have("(nothing)") | has, all_have("(nothing)")]
    assert ("→ ask_travel(" in before, "→ ask_travel(" in after) == (True, False)
    assert "reached: replica, flag, record" in after
    assert after.index("ask_travel now: (nothing)") < after.index("travel   ✓ answered")
    assert "A day trip to City Aquarium" in after


def test_the_audit_tells_every_move_once_and_who_had_what_back_then(shown: Shown) -> None:
    """One kill is one event; a user whom the rollback took it from had the new one at the time that is asked about."""
    moves = [move for move in MOVES for _ in re.findall(rf" {move} ", shown.steps[8])]
    assert moves == list(MOVES)
    assert shown.words(8).count("by ada@demo (operator): ") == 4
    assert "the user is served by shop-dates" in shown.steps[8]


KILLED: Final = CommandOutput(0, [f"2026-11-22  7  travel  {move}  by ada" for move in MOVES], 0.1)


@pytest.mark.parametrize(
    ("deviations", "what"),
    [
        (audit_deviations(CommandOutput(0, [*KILLED.lines, KILLED.lines[-1]], 0.1)), "has the moves"),
        (audit_deviations(CommandOutput(0, KILLED.lines[:-1], 0.1)), "has the moves"),
        (audit_deviations(CommandOutput(2, KILLED.lines, 0.1)), "exit code was 2"),
        (question_deviations(ASKED[1:]), "was asked"),
        (
            output_deviations(CommandOutput(0, ["done: rollback"], 0.1), "done: promote"),
            "did not print 'done: promote'",
        ),
        (
            output_deviations(CommandOutput(0, ["(GATE_FAILED)"], 0.1), "(GATE_FAILED)", code=1),
            "exit code was 0, not 1",
        ),
    ],
)
def test_the_demo_would_notice(deviations: Iterator[str], what: str) -> None:
    """A second kill, none, a failed command, a gate that was not asked, another answer, a refusal that was none."""
    assert any(what in deviation for deviation in deviations)
    assert list(audit_deviations(KILLED)) == []
