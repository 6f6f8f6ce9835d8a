"""`CHAT=1`: somebody types, through a pipe or at a terminal, and nothing is left running however they stop."""

import os
import re
from contextlib import suppress
from typing import Final

import pytest

from tests.support.requirement import requirement
from tests.support.running_demo import demo_at_a_terminal, running_demo

pytestmark = pytest.mark.system

CHAT: Final = {"CHAT": "1"}
STOP_SECONDS: Final = 120.0
CANARY: Final = "canary-of-somebody-else-4712"


def test_three_lines_through_a_pipe_are_answered_and_nothing_is_left() -> None:
    """A question, the timeline, another question without an end of line: then there is no more to read."""
    with running_demo(CHAT, typed="Any offers on coffee?\n/timeline\nWhere is my order?") as demo:
        code = demo.read_to_the_end()
        assert code == 0, demo.text
        assert demo.started() == {}
    assert "coffee beans at Harbour Roasters" in demo.text
    assert re.search(r"shop +━+ +\d+ ms +✓ succeeded", demo.text), "the timeline"
    assert "1 call, cap 3 (within) · intents 1 declared, 1 called" in demo.text, "the routing decision"
    assert "Order" in demo.text.rpartition("Where is my order?")[2]
    assert "of 8 · " not in demo.text, "the script is not played"


@requirement("PC1-FR-5a", "PC2-FR-12b")
def test_whoever_types_can_break_things_and_mend_them() -> None:
    """Rewards raises until it is told otherwise; then the data is another user's, of which nothing shows."""
    points = "What is my points balance?\n"
    typed = f"/faults rewards\n{points}/faults rewards\n{points}/faults principal\n{points}/faults principal\n{points}"
    with running_demo({**CHAT, "DEMO_CANARY": CANARY}, typed=f"{typed}/quit\nnever read\n") as demo:
        assert demo.read_to_the_end() == 0, demo.text
        assert demo.started() == {}
    raised, mended, withheld, right = demo.text.split(f"you  {points}")[1:]
    assert "sorry, I could not find that out" in raised
    assert "bronze tier" in mended
    assert "cannot be looked up" in withheld
    assert re.search(r"ps6_envelope_principal_mismatch_total\S* 1\.0", withheld)
    assert "bronze tier" in right
    assert CANARY not in demo.text
    assert "never read" not in demo.text


@pytest.mark.parametrize(("key", "code"), [(b"\x04", 0), (b"\x03", 130)], ids=["Ctrl-D", "Ctrl-C"])
def test_at_a_terminal_both_keys_stop_everything(key: bytes, code: int) -> None:
    """After an unknown command, which is told what there is, a timeline of nothing, and an answer."""
    with demo_at_a_terminal(CHAT) as (demo, keyboard):
        demo.read_until("your turn")
        os.write(keyboard, b"/tomeline\n/timeline\n/faults weather\nAny offers on coffee?\n")
        demo.read_until("Harbour Roasters")
        os.write(keyboard, key)
        with suppress(OSError):  # how Linux says that nobody has the terminal open any more
            demo.read_to_the_end()
        assert demo.text.count("/quit  ") == 2, "at the beginning and after the unknown command"
        assert "There was no turn yet." in demo.text
        assert "There is no 'weather' to break." in demo.text
        assert demo.process.wait(STOP_SECONDS) == code
        assert demo.started() == {}
