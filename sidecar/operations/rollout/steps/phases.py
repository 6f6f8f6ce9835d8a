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
    """What it means that the id of a request was used before."""

    ANSWERED = auto()
    """The request is answered as before; another request, or another operator's, is refused."""
    RENAMED = auto()
    """As `ANSWERED`; but a step that was already answered as held here is taken under another id."""
    TAKEN_UNANSWERED = auto()
    """The step is taken all the same, and no answer is kept; the same request is repeated once nothing is left."""


class StopInEffect(Struct, frozen=True, kw_only=True):
    """A stop that was answered as held in this replica, and is to be put on record.

    Attributes:
        judged: of a kill: that its kill flag cannot be seen now does not end it.
        write: writes it instead of the store.
    """

    stop: LocalStop
    judged: bool = True
    write: Callable[[RolloutWrite], Awaitable[None]] | None = None


class Phases(Struct, frozen=True, kw_only=True):
    """What one kind of step passes.

    Attributes:
        holds: the step holds in this replica first, and the record follows; None: nothing holds before the record.
        dated_as_held: the record has the moment from which the step held, not the moment of the write.
        reused: what it means that the request id was used before.
        by_revision: a request that names a revision is refused at another one.
        tries: how often the step is laid out while other writes come first, if the request names no revision.
        proven: the content that would serve users is proven to be valid and whole.
        policies: as which step lifecycle policies judge it; None: no policy and no gate is asked.
        gates: the platform's gates are asked; a policy can add gates to any step that it judges.
        flags: the flags of the ramp are checked and switched before the write.
        says_version: the answer has the version of all rollouts, which is one more read of the store.
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
        """Errors that say that another write came first."""
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
    requests.DecideDecommission: Phases(),
    requests.UndoDecommission: Phases(),
    requests.AcknowledgeBreach: Phases(),
    requests.SwitchFlagOn: Phases(flags=False),
    requests.SwitchFlagOff: Phases(flags=False, tries=5),
    requests.RollBack: Phases(proven=True, tries=5),
    requests.RampDown: Phases(holds=StopKind.RAMP_DOWN, reused=AnswerReuse.RENAMED, tries=5),
    requests.Kill: Phases(
        holds=StopKind.KILL,
        dated_as_held=True,
        reused=AnswerReuse.TAKEN_UNANSWERED,
        by_revision=False,
        tries=20,
        flags=False,
        says_version=False,
    ),
}
"""By kind of request; a move of the lifecycle by its `Step`."""


def phases_of(asked: StepRequest) -> Phases:
    """Return what a request passes. Raises `KeyError`: its kind is no step."""
    return PHASES[asked.step if isinstance(asked, requests.Transition) else type(asked)]
