"""What a sub-agent's script must come to, worked out from the script alone.

Shares nothing with the operations: it walks the script with pencil and paper. Where two things happen at the same
instant, either may come first, so a prediction is a list of ends that are possible.
"""

from dataclasses import dataclass
from enum import StrEnum, unique

from sidecar.core.definitions.cards.card import Limits
from tests.support.simulation.runner import IGNORES_FOR, RunSeen
from tests.support.simulation.scripts import AttemptScript, Do, End

TIE = 1e-6
MOST_NARRATION = 4000
MOST_EVENTS = 300
NEVER = float("inf")


@unique
class Kind(StrEnum):
    """How an attempt ends when nobody outside stops it."""

    ANSWER = "answer"
    ANSWER_WITHOUT_DATA = "answer_without_data"
    OUT_OF_BUDGET = "out_of_budget"
    ATTEMPT_TIMEOUT = "ATTEMPT_TIMEOUT"
    RUNNER_IDLE = "RUNNER_IDLE"
    RUNNER_FAILED = "RUNNER_FAILED"
    FAILED_FOR_NOW = "failed_for_now"
    RUNNER_UNAVAILABLE = "RUNNER_UNAVAILABLE"
    RESULT_INVALID = "RESULT_INVALID"
    NO_END = "no_end"
    RESULT_TOO_LARGE = "RESULT_TOO_LARGE"


TRANSIENT = frozenset(
    {Kind.ATTEMPT_TIMEOUT, Kind.RUNNER_IDLE, Kind.FAILED_FOR_NOW, Kind.RUNNER_UNAVAILABLE, Kind.NO_END}
)
REASON_OF = {Kind.FAILED_FOR_NOW: "RUNNER_FAILED", Kind.NO_END: "RESULT_INVALID"}
OWN_END = {
    End.FINISH: Kind.ANSWER,
    End.FINISH_WITHOUT_DATA: Kind.ANSWER_WITHOUT_DATA,
    End.INLINE_JSON: Kind.RESULT_INVALID,
    End.TRANSIENT: Kind.FAILED_FOR_NOW,
    End.UNREACHABLE: Kind.RUNNER_UNAVAILABLE,
    End.NO_END: Kind.NO_END,
    End.NO_EVENT: Kind.RESULT_INVALID,
}


@dataclass(frozen=True, slots=True)
class Predicted:
    """One possible end, and when it comes."""

    at: float
    kind: Kind

    @property
    def reason(self) -> str:
        """The reason of the outcome, where it is a failure."""
        return REASON_OF.get(self.kind, self.kind.value)


@dataclass(slots=True)
class _Walk:
    """The script on its way."""

    at: float
    spoke_at: float
    events: int = 0
    narration: int = 0

    def speak(self, events: int = 1) -> None:
        self.spoke_at = self.at
        self.events += events


def predict(run: RunSeen, limits: Limits, wall_clock_at: float, tokens_left: int | None) -> list[Predicted]:
    """Return how an attempt may end, if it is left alone.

    Args:
        run: for its script, when it began, and how long its tool calls took.
        limits: of the card.
        wall_clock_at: when the child's time is up; infinite if it has no such limit.
        tokens_left: of the child's budget before this attempt; None if it has no such limit.
    """
    bounds = [Predicted(run.began_at + limits.attempt_timeout.total_seconds(), Kind.ATTEMPT_TIMEOUT)]
    if wall_clock_at < NEVER:
        bounds.append(Predicted(max(wall_clock_at, run.began_at), Kind.OUT_OF_BUDGET))
    idle = None if limits.idle_timeout is None else limits.idle_timeout.total_seconds()
    own, silent_at = _own_end(run, idle, tokens_left)
    bounds.append(own)
    if silent_at is not None:
        bounds.append(Predicted(silent_at, Kind.RUNNER_IDLE))
    earliest = min(bound.at for bound in bounds)
    return [bound for bound in bounds if bound.at <= earliest + TIE]


def _own_end(run: RunSeen, idle: float | None, tokens_left: int | None) -> tuple[Predicted, float | None]:
    """Return the end that the script itself comes to, and when the attempt was first silent for too long."""
    walk = _Walk(run.began_at, run.began_at)
    silent: list[float] = []
    tools = iter(run.tools)
    for step in run.script.steps:
        if step.do is Do.WAIT:
            walk.at += step.amount
            continue
        if step.do is Do.TOOL:
            tool = next(tools, None)
            if tool is None:
                return Predicted(NEVER, Kind.ANSWER), _first_silence(silent, walk, NEVER, idle)
            walk.at += tool.takes if tool.ended_at is None else tool.ended_at - tool.began_at
            continue
        _note_silence(silent, walk, idle)
        walk.speak(400 if step.do is Do.FLOOD else 1)
        broken = _broken(walk, step.do, step.amount, step.text, tokens_left)
        if broken is not None:
            return Predicted(walk.at, broken), _first_silence(silent, walk, walk.at, idle)
    end = _end_of(walk, run.script)
    return end, _first_silence(silent, walk, end.at, idle)


def _broken(walk: _Walk, do: Do, amount: float, text: str, tokens_left: int | None) -> Kind | None:
    if walk.events > MOST_EVENTS:
        return Kind.RESULT_TOO_LARGE
    if do in (Do.NARRATE, Do.OVERSIZE):
        walk.narration += len(text)
        return Kind.RESULT_TOO_LARGE if walk.narration > MOST_NARRATION else None
    if do is Do.LYING_COMPONENT:
        return Kind.RESULT_INVALID
    if do is Do.USAGE and tokens_left is not None and amount > tokens_left:
        return Kind.OUT_OF_BUDGET
    return None


def _end_of(walk: _Walk, script: AttemptScript) -> Predicted:
    if script.end is End.HANG:
        return Predicted(NEVER, Kind.ANSWER)
    if script.end is End.IGNORE_CANCEL:
        return Predicted(walk.at + IGNORES_FOR, Kind.ANSWER)
    if script.end in (End.FINISH, End.FINISH_WITHOUT_DATA) and walk.events >= MOST_EVENTS:
        return Predicted(walk.at, Kind.RESULT_TOO_LARGE)
    return Predicted(walk.at, OWN_END.get(script.end, Kind.RUNNER_FAILED))


def _note_silence(silent: list[float], walk: _Walk, idle: float | None) -> None:
    if idle is not None and walk.at - walk.spoke_at >= idle - TIE:
        silent.append(walk.spoke_at + idle)


def _first_silence(silent: list[float], walk: _Walk, end: float, idle: float | None) -> float | None:
    if idle is not None and end - walk.spoke_at >= idle - TIE:
        silent.append(walk.spoke_at + idle)
    return min(silent, default=None)
