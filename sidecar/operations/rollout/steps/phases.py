"""The phases that each kind of step passes on its way to the record; the one place that defines what a kill skips.

The order, in `take_step.py`: identify the request; repeat an earlier answer; find the definition and compare the
revision; apply the rules; prove; call policies, then gates; check and switch flags; write change, audit and answer in
one transaction; answer. Source: PF1-FR-9, PF1-D-31, DESIGN section 8.
"""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto, unique
from typing import Final

from msgspec import Struct

from sidecar.core.errors import RequestIdReused, RevisionConflict, SubagentsError
from sidecar.operations.rollout import requests
from sidecar.operations.rollout.requests import StepRequest
from sidecar.operations.rollout.store.ports import LocalStop, RolloutWrite, StopKind
from sidecar.policy.lifecycle import Step


@unique
class AnswerReuse(Enum):
    """The consequence of a request id that was used before."""

    ANSWERED = auto()
    """The request gets the earlier answer; a different request, or one of another operator, is refused."""
    RENAMED = auto()
    """As `ANSWERED`, but a step whose answer already said that it holds here is taken under another id."""
    TAKEN_UNANSWERED = auto()
    """The step is taken nevertheless, and no answer is stored; the earlier answer counts once nothing is left to do."""


class StopInEffect(Struct, frozen=True, kw_only=True):
    """A stop that holds in this replica and must be recorded.

    Attributes:
        judged: a kill was found to be allowed when it took effect here. Its kill flag is then not looked for again: the
            flag backend may be unavailable while the kill is recorded.
        write: writes the step's change; None: the store does.
    """

    stop: LocalStop
    judged: bool = True
    write: Callable[[RolloutWrite], Awaitable[None]] | None = None


class Phases(Struct, frozen=True, kw_only=True):
    """The phases of one kind of step.

    Attributes:
        holds: the step holds in this replica first, and the record follows; None: it takes effect by the record only.
        dated_as_held: the record has the time from which the step held, not the time of the write.
        reused: the consequence of a request id that was used before.
        by_revision: a request that names a revision is refused at another one.
        tries: how often the step is computed at most, because other writes may come first. A request that names a
            revision gets one try if `by_revision`.
        proven: the content that would serve users must be proven to be valid and complete.
        policies: the step as which lifecycle policies judge it; None: no policy and no gate is called.
        gates: the platform's gates are called; a policy can add gates to any step that it judges.
        flags: the flags of the ramp are checked and switched before the write.
        says_version: the answer has the version of all rollouts, which costs one more read of the store.
    """

    holds: StopKind | None = None
    dated_as_held: bool = False
    reused: AnswerReuse = AnswerReuse.ANSWERED
    by_revision: bool = True
    tries: int = 1
    proven: bool = False
    policies: Step | None = None
    gates: bool = False
    flags: bool = True
    says_version: bool = True

    @property
    def repeats(self) -> bool:
        """Whether an earlier answer under the same id ends the step before anything is read."""
        return self.reused is not AnswerReuse.TAKEN_UNANSWERED

    @property
    def overtaken(self) -> tuple[type[SubagentsError], ...]:
        """Errors that mean that another write came first."""
        return (RevisionConflict,) if self.repeats else (RevisionConflict, RequestIdReused)


PHASES: Final[Mapping[type[StepRequest] | Step, Phases]] = {
    Step.TO_TEST: Phases(policies=Step.TO_TEST),
    Step.PROMOTE: Phases(proven=True, policies=Step.PROMOTE, gates=True),
    requests.SetRamp: Phases(policies=Step.SET_RAMP, gates=True),
    requests.Configure: Phases(policies=Step.CONFIGURE, gates=True),
    requests.OverrideGate: Phases(policies=Step.OVERRIDE_GATE),
    requests.Activate: Phases(proven=True, policies=Step.ACTIVATE),
    requests.RetireFlags: Phases(policies=Step.RETIRE_FLAGS),
    requests.BeginDecommission: Phases(policies=Step.DECOMMISSION),
    requests.TakeDecommissionStep: Phases(policies=Step.DECOMMISSION),
    # No policy and no gate: the next three change nothing that a user gets.
    requests.DecideDecommission: Phases(),
    requests.UndoDecommission: Phases(),
    requests.AcknowledgeBreach: Phases(),
    # The step is itself the switch of a flag, so there is no flag to check or switch before it.
    requests.SwitchFlagOn: Phases(flags=False),
    # Five tries: a step that takes users away should not fail because another write came first.
    requests.SwitchFlagOff: Phases(flags=False, tries=5),
    # No policy and no gate: a withdrawal must not depend on them. Its target, however, must exist.
    requests.RollBack: Phases(proven=True, tries=5),
    requests.RampDown: Phases(holds=StopKind.RAMP_DOWN, reused=AnswerReuse.RENAMED, tries=5),
    requests.Kill: Phases(
        holds=StopKind.KILL,
        dated_as_held=True,
        reused=AnswerReuse.TAKEN_UNANSWERED,
        # A kill must not fail because the rollout changed while an operator typed: whatever its state, it must end.
        by_revision=False,
        # Each try is one lost race with another write. A kill gives up last of all.
        tries=20,
        flags=False,
        says_version=False,
    ),
}
"""By kind of request; a lifecycle transition by its `Step`."""


def phases_of(asked: StepRequest) -> Phases:
    """Return the phases of a request. Raises `KeyError` if its kind is not a step."""
    return PHASES[asked.step if isinstance(asked, requests.Transition) else type(asked)]
