"""What deciding who is served costs at a bind, as a number of calls: what it takes in time is for the benchmark."""

import gc
import sys
from collections import Counter
from types import FrameType
from typing import Any, Final

from sidecar.core.binding.candidates import judge
from sidecar.core.identifiers import Digest, Slot
from sidecar.core.rollout.facts import SlotRollout
from sidecar.core.rollout.serving import Asker
from sidecar.core.rollout.view import RolloutView
from tests.support.builders import a_catalogue
from tests.support.operators import gated
from tests.support.requirement import requirement
from tests.unit.rollout.building import facts, flags, with_target

SLOTS: Final = 10
"""As many sub-agents as there may be (PF1-D-65)."""
OUTSIDE: Final = frozenset({"io", "_io", "socket", "_socket", "select", "_ssl", "posix", "os", "time", "asyncio"})
MOST_CALLS: Final = 80
"""Of functions, for each slot; each takes about a tenth of a microsecond."""

MOST_INSTRUCTIONS: Final = 3_000
"""Of the interpreter, for each slot; a thousand take far less than a tenth of a millisecond."""


def a_rollout(number: int) -> SlotRollout:
    """Return a slot whose active definition and target have both to be looked at: its flags are on, its ramp is 0."""
    old, new = facts(f"old{number}", ramp=10_000), with_target(facts(f"new{number}", ramp=0), f"old{number}")
    slot = Slot(f"slot{number}")
    return SlotRollout(
        slot=slot,
        revision=1,
        definitions={old.digest: old, new.digest: new},
        active=Digest(f"sha256:new{number}"),
        salt=slot,
    )


@requirement("PF1-NFR-4a", "PF1-NFR-4b")
def test_the_cohort_check_is_a_few_dozen_look_ups_in_memory_and_asks_nobody() -> None:
    """Ten slots, two definitions and four flags in each: some calls a slot, none of them to anything outside."""
    rollouts = [a_rollout(number) for number in range(SLOTS)]
    view = RolloutView({each.slot: each for each in rollouts}, 1)
    names = [facts.definition_id for each in rollouts for facts in each.definitions.values()]
    catalogue, on = a_catalogue(*(gated(name) for name in names)), flags(*names)
    calls, instructions = list[str](), Counter[str]()

    def step(frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_opcodes = True
        instructions[event] += 1
        return step

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event == "call":
            calls.append(str(frame.f_globals.get("__name__", "")))
        elif event == "c_call":
            calls.append(str(getattr(called, "__module__", None) or type(getattr(called, "__self__", None)).__module__))

    judge(rollouts[0].slot, catalogue, on, view, Asker("user-1"))  # whatever is made on first use
    before, traced = sys.getprofile(), sys.gettrace()
    gc.disable()  # a collection calls back (Hypothesis asks for it) and ends what other tests have left
    sys.settrace(step)
    for each in rollouts:  # beside the other count, for each disturbs the other
        judge(each.slot, catalogue, on, view, Asker("user-1"))
    sys.settrace(traced)
    sys.setprofile(watch)
    try:
        judged = [judge(each.slot, catalogue, on, view, Asker("user-1")) for each in rollouts]
    finally:
        sys.setprofile(before)
        gc.enable()

    assert [each.digest for each in judged] == [f"sha256:old{number}" for number in range(SLOTS)]
    assert OUTSIDE.isdisjoint(name.partition(".")[0] for name in calls)
    assert 0 < len(calls) <= SLOTS * MOST_CALLS
    assert 0 < instructions["opcode"] <= SLOTS * MOST_INSTRUCTIONS
