"""The bench of the lifecycle policy suite, and the detection of calls that make a policy impure."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import product
from types import FrameType
from typing import Any, Final

import msgspec

from sidecar.core.identifiers import DefinitionId, Digest, Slot, Vertical
from sidecar.core.rollout.facts import RolloutMode
from sidecar.core.rollout.states import LifecycleState
from sidecar.policy.lifecycle import Approval, LifecyclePolicy, Step, StepFacts

NOW: Final = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
"""A Wednesday."""

FACTS: Final = StepFacts(
    step=Step.SET_RAMP,
    slot=Slot("shop"),
    definition_id=DefinitionId("shop"),
    digest=Digest("sha256:" + "a1" * 32),
    vertical=Vertical("shop"),
    state=LifecycleState.PROMOTE,
    from_ramp=500,
    to_ramp=2500,
    actor="first@example.com",
    approvals=(Approval("first@example.com", NOW),),
    last_step_at=datetime(2026, 3, 1, 12, 0, tzinfo=UTC),
    now=NOW,
)
"""A raise from 5 % to 25 %, three days after the last step. `changed` returns variants."""

IMPURE: Final[Mapping[str, str]] = {
    "time": "reads a clock",
    "datetime": "reads a clock",
    "_random": "draws a random number",
    "random": "draws a random number",
    "_socket": "opens a connection",
    "posix": "asks the operating system",
    "_io": "opens a file",
}
"""Module to the reason why a policy must not call its functions."""
PURE: Final = frozenset({"fromisoformat", "strftime", "isoformat", "astimezone", "replace", "combine", "utcoffset"})
"""Functions of these modules that a policy may call, because they only compute."""
CLOCKS: Final = frozenset({"now", "utcnow", "today", "time", "monotonic", "perf_counter", "time_ns", "localtime"})


class LifecyclePolicyBench(ABC):
    """A policy, and steps with the known decision. Plugin authors subclass it."""

    @abstractmethod
    def make(self) -> LifecyclePolicy:
        """Return a new policy, always with the same settings."""

    @abstractmethod
    def allowed(self) -> Sequence[StepFacts]:
        """Return at least one step that the policy allows. Create steps with `changed`."""

    @abstractmethod
    def denied(self) -> Sequence[StepFacts]:
        """Return steps that the policy denies; empty if it only requires gates."""


def changed(**facts: Any) -> StepFacts:
    """Return `FACTS` with some fields replaced."""
    return msgspec.structs.replace(FACTS, **facts)


def every_kind_of_step() -> Iterator[StepFacts]:
    """Yield facts of every kind of step, including rare combinations."""
    for step in Step:
        for state in LifecycleState:
            for ramps in ((0, 0), (0, 1), (500, 2500), (2500, 500), (9999, 10_000), (10_000, 0)):
                for last, mode in product((None, NOW, FACTS.last_step_at), RolloutMode):
                    who = (Approval(f"somebody-{len(state)}", NOW), Approval("first@example.com", NOW))
                    yield changed(
                        step=step,
                        state=state,
                        from_ramp=ramps[0],
                        to_ramp=ramps[1],
                        last_step_at=last,
                        to_mode=mode if step is Step.CONFIGURE else FACTS.from_mode,
                        vertical=Vertical("never-heard-of"),
                        gate="pre_ramp" if step is Step.OVERRIDE_GATE else "",
                        approvals=who[: 1 + (last is None)],
                    )


@contextmanager
def impure_calls() -> Iterator[list[str]]:
    """Yield a list to which each impure call of the block is added, with its reason; only calls in this thread."""
    found: list[str] = []

    def watch(_frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call":
            return
        owner = getattr(called, "__self__", None)
        module = getattr(called, "__module__", None) or getattr(owner, "__module__", None) or ""
        name = getattr(called, "__name__", "")
        kind = owner if isinstance(owner, type) else type(owner)
        of = module if module in IMPURE else getattr(kind, "__module__", "")
        is_clock = of in {"time", "datetime"} and name in CLOCKS and not (of == "datetime" and name == "time")
        if is_clock or (of in IMPURE and of not in {"time", "datetime"} and name not in PURE):
            found.append(f"{name} of {of}: {IMPURE[of]}")

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield found
    finally:
        sys.setprofile(before)
