"""What the operations need from other systems, each as one small protocol.

The composition root connects the ports to the real systems. The simulation connects the same operations to a virtual
clock, a seeded scheduler and faulty systems. Code in `operations` reaches other systems only through ports.
"""

from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from sidecar.core.definitions.cards.card import Card, Catalogue
from sidecar.core.dispatching.frames import Frame
from sidecar.core.dispatching.outcomes import Usage
from sidecar.core.dispatching.routing_record import RoutingRecord
from sidecar.core.evaluation.scores import Score, ScoredCall
from sidecar.core.identifiers import Digest
from sidecar.policy.protocols import Connector, Runner

# Read-only, because all calls of `Recorder.anomaly` without further fields share it.
NOTHING_MORE: Final[Mapping[str, str]] = MappingProxyType({})
Result = TypeVar("Result")


class Clock(Protocol):
    """Time. Waiting is asyncio's (`asyncio.timeout`, `asyncio.sleep`), which follow the loop's clock."""

    def now(self) -> datetime:
        """Return the wall clock's time, aware, in UTC. For records and expiry only, never for durations."""

    def monotonic(self) -> float:
        """Return seconds of the running loop's clock; the base of every deadline and duration."""


class Ids(Protocol):
    """Makes unguessable, unique ids: at least 128 random bits each."""

    def new(self, kind: str) -> str:
        """Return `<kind>-<unique>`; printable ASCII, at most 64 characters; `kind` is a word such as `child`."""


class Randomness(Protocol):
    """Randomness for jitter."""

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`."""


class Task(Protocol):
    """What is needed of a spawned task; `asyncio.Task` is one."""

    def cancel(self, msg: Any | None = None) -> bool:
        """Ask it to stop."""

    def done(self) -> bool:
        """Return whether it has ended."""


class Spawner(Protocol):
    """Owns every task that outlives the call that began it, and sees what they raise."""

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> Task:
        """Run `work` in a task. Its exceptions are logged and counted, and reach no other task."""


class RunInThread(Protocol):
    """Runs a long computation without blocking the event loop."""

    async def __call__(self, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, or raise what it raises."""


async def run_inline(work: Callable[[], Result]) -> Result:
    """Run `work` immediately: the `RunInThread` of simulations, which need one fixed order."""
    return work()


class Definitions(Protocol):
    """The configuration as last loaded."""

    def current(self) -> Catalogue | None:
        """Return the newest valid state; None before the first."""

    def card_by_digest(self, digest: Digest) -> Card | None:
        """Return a card that was ever loaded here, if it is still kept."""


class Runners(Protocol):
    """Selects the runner of a card."""

    def runner_for(self, card: Card) -> Runner:
        """Return the runner; always the same object for the same target, i.e. for the same address of a host."""


class Connectors(Protocol):
    """Selects the connector of a tool."""

    def connector_for(self, card: Card, tool_id: str) -> Connector:
        """Return the connector for a tool of the card."""


class FrameStream(Protocol):
    """One listener of a dispatch: a gRPC stream, or a simulated one.

    `send` waits while the listener is slow, and raises `ListenerClosed` when it has left.

    Attributes:
        grace: how long the listener may take to return after it has left. Read when it leaves: a client whose session
            lane breaks needs time to open another one.
    """

    @property
    def grace(self) -> timedelta:
        """See above; 0: none."""

    async def send(self, frame: Frame) -> None:
        """Deliver one frame."""


class ListenerClosed(Exception):
    """The listener of a dispatch has gone away."""


class Recorder(Protocol):
    """Receives reports of operations, for metrics, traces and logs. Never raises, never waits."""

    def child_settled(self, slot: str, outcome: str, axis: int, seconds: float) -> None:
        """Count one call that was run and has its outcome."""

    def call_settled(self, slot: str, definition_id: str, arm: str, outcome: str, reason: str) -> None:
        """Count one call, whether it ran or not, by outcome and by definition (empty for an unknown tool)."""

    def score_recorded(self, score: Score, call: ScoredCall) -> None:
        """Count a score by what was scored, and write it to the log without its explanation."""

    def attempt_repeated(self, slot: str) -> None:
        """Count a failed attempt that is followed by another."""

    def tokens_used(self, slot: str, usage: Usage) -> None:
        """Count the tokens that an attempt's host reported, without those of delegated children."""

    def money_spent(self, slot: str, definition_id: str, arm: str, cost: int | None) -> None:
        """Count the cost of an attempt's tokens, in units of `money`; None: unknown."""

    def surface_bound(self, beginning: Digest, estimated_tokens: int) -> None:
        """Count the size of a bound surface: digest and estimated tokens of its tools and of its prompt's prefix."""

    def turn_bound(self, compaction_due: str, turns: int | None, estimated_tokens: int | None) -> None:
        """Count a bound turn: whether its episode is due for compaction, and the episode's length, if known."""

    def idle_turn_ended(self, why: str) -> None:
        """Count an idle turn that was ended; `why` is `lifetime`, or `room` if another turn needed its place."""

    def dispatch_settled(self, calls: int, failed: int, overhead: timedelta) -> None:
        """Count one dispatch, and how many of its calls failed or were degraded."""

    def turn_routed(self, record: RoutingRecord) -> None:
        """Write the routing decision to the log and count it."""

    def status_seen(self, slot: str, decision: str) -> None:
        """Count one progress report and the policy's decision: forward, transform, suppress, batch, unknown...

        `still_working` counts what the sidecar reported for a silent sub-agent.
        """

    def status_unknown(self, slot: str, event_type: str) -> None:
        """Warn, once for each slot and type, of a report whose type is not in the vocabulary or is no identifier."""

    def prior_context_missing(self, orchestrator_id: str) -> None:
        """Count an intent switch without `prior_context`."""

    def text_changed(self, slot: str) -> None:
        """Count an attempt from whose text hidden characters or special tokens were removed."""

    def daily_limit(self, slot: str, reason: str) -> None:
        """Count a call that was refused by a sub-agent's daily limit: the limit is reached, or the count is unknown."""

    def data_call(self, slot: str, tool_id: str, result: str, seconds: float) -> None:
        """Count one call of a data service: `released`, or the reason for which it was withheld."""

    def principal_mismatch(self, slot: str, tool_id: str, child_id: str) -> None:
        """Raise the security alert: a data service answered for another user."""

    def effect_settled(self, slot: str, tool_id: str, result: str) -> None:
        """Count one effect: `done`, `refused`, `not_sent`, `unknown`, or `repeated` for an earlier answer."""

    def security_incident(self, slot: str, tool_id: str, child_id: str, reason: str) -> None:
        """Log a response that may have contained another user's data; `principal_mismatch` is one such reason."""

    def version_mismatch(self, slot: str, tool_id: str) -> None:
        """Count an envelope whose payload has another major version."""

    def anomaly(self, kind: str, detail: str, about: Mapping[str, str] = NOTHING_MORE) -> None:
        """Log and count an event that should not happen: a quarantined attempt, a broken plugin, an unexpected error.

        Args:
            kind: one of a few words; a label of the counter.
            detail: one sentence for an operator, without data of a user.
            about: fields of the log line.
        """
