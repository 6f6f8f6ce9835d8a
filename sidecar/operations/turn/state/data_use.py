"""The results of a child's calls of data services, and its calls with effects.

Calls are matched over attempts by tool, arguments and number: the second `book` with the same arguments in one
attempt is the same call as the second one in the previous attempt.
"""

from collections.abc import Set
from enum import StrEnum, unique
from typing import Final

from msgspec import Struct, field

from sidecar.core.executing.idempotency import comparable, idempotency_key
from sidecar.core.identifiers import ChildId, ToolId
from sidecar.core.replaying.frames import Effect as GatewayAction

MOST_EFFECTS: Final = 64
"""The most effects of one child. Each needs a fact of its own, which must be durable before the effect is sent."""
KEPT_BYTES: Final = 64 * 1024
"""The most bytes of answers that are kept for another attempt of the child."""


class DataUse(Struct):
    """A summary of a child's calls of data services.

    Attributes:
        calls: calls through the gateway.
        released: payloads that were released to the sub-agent.
        barred_below: a service may have given another user's data to a child that this one delegated to.
        budget_hit: a call was refused because the budget was used up.
        effects_sent: calls with side effects, including those of children that this one delegated to.
        effects_unknown: sent effects without a known result, including those that still run. If the result of one
            stays unknown, the child ends with `EFFECT_UNKNOWN`.
        final: no other attempt is made, because it could repeat an effect.
    """

    calls: int = 0
    released: int = 0
    _barred: set[ToolId] = field(default_factory=set)
    barred_below: bool = False
    budget_hit: bool = False
    effects_sent: int = 0
    effects_unknown: int = 0
    final: bool = False

    @property
    def barred(self) -> Set[ToolId]:
        """Tools whose service may have returned another user's data; this child may not call them again."""
        return self._barred

    @property
    def barred_anywhere(self) -> bool:
        """Whether an answer, here or below, may have been another user's data."""
        return self.barred_below or bool(self._barred)

    @property
    def forces_degraded(self) -> bool:
        """Whether the outcome must be degraded: no data call succeeded, or one may have returned another user's data.

        Source: DESIGN section 5.
        """
        # The terms of `barred_anywhere`, without its call: this is read for every child.
        return self.barred_below or bool(self._barred) or (self.calls > 0 and self.released == 0)

    def count(self, action: GatewayAction, tool_id: ToolId) -> None:
        """Count an action of the tool gateway."""
        match action:
            case GatewayAction.CALLED:
                self.calls += 1
            case GatewayAction.RELEASED:
                self.released += 1
            case GatewayAction.BARRED:
                self._barred.add(tool_id)
            case GatewayAction.BUDGET:
                self.budget_hit = True
            case GatewayAction.WITHHELD:
                pass  # `forces_degraded` compares the number of calls with the number of releases
            case GatewayAction.SENT:
                # The result counts as unknown until `SETTLED`: if the process dies or the answer is lost in between,
                # the effect may have happened, and no other attempt may be made.
                self.effects_sent += 1
                self.effects_unknown += 1
            case GatewayAction.SETTLED:
                self.effects_unknown -= 1
            case GatewayAction.FINAL:
                self.final = True

    def count_below(self, sent: int, unknown: int, *, barred: bool) -> None:
        """Count the result of a delegation: its sent effects, and those of them whose result is unknown.

        If an effect was sent below, no other attempt is made: it would delegate to a new child, whose effects have new
        keys.
        """
        self.barred_below = self.barred_below or barred
        self.effects_sent += sent
        self.effects_unknown += unknown
        self.final = self.final or sent > 0


@unique
class EffectResult(StrEnum):
    """The known result of an effect."""

    DONE = "done"
    """The service responded, and its response passed the checks."""
    REFUSED = "refused"
    """The service responded that it did nothing."""
    NOT_SENT = "not_sent"
    """The request did not leave the sidecar, or no connection could be opened."""
    UNKNOWN = "unknown"


class KeptAnswer(Struct, frozen=True):
    """The answer to an effect, as the sub-agent received it; `partial`: the service called its data incomplete."""

    payload_json: str
    partial: bool


class RequestedEffect(Struct):
    """One effect that a sub-agent requested; `result` tells whether it was sent.

    Attributes:
        attempt: number of the attempt that requested it last.
        result: None while its key is being recorded or its request runs.
        answer: the answer of a completed effect, unless there was no room for it.
    """

    tool_id: ToolId
    attempt: int
    result: EffectResult | None = None
    answer: KeptAnswer | None = None

    def settle(self, result: EffectResult) -> None:
        """Set the result; `UNKNOWN` is final, too."""
        self.result = result

    def ask_again(self, attempt: int) -> None:
        """Note that another attempt requests the effect."""
        self.attempt = attempt


class RequestedEffects:
    """The effects of one child, over all attempts in this process."""

    __slots__ = ("_attempt", "_call_counts", "_child_id", "_effects", "_kept_bytes")

    def __init__(self, child_id: ChildId) -> None:
        """Begin without effects."""
        self._child_id = child_id
        self._attempt = 0
        self._call_counts: dict[tuple[ToolId, str], int] = {}  # of the present attempt, by tool and arguments
        self._effects: dict[str, RequestedEffect] = {}  # by key
        self._kept_bytes = 0

    def __len__(self) -> int:
        """Return the number of effects."""
        return len(self._effects)

    def next_key(self, attempt: int, tool_id: ToolId, arguments_json: str) -> str:
        """Return the key of the next call of an attempt."""
        # Numbers begin again in each attempt, so that the same call gets the same key in the next attempt. With another
        # key, the service could not recognise the call and would carry out its effect twice.
        if attempt != self._attempt:
            self._attempt, self._call_counts = attempt, {}
        call = tool_id, comparable(arguments_json)
        self._call_counts[call] = number = self._call_counts.get(call, 0) + 1
        return idempotency_key(self._child_id, *call, number)

    def requested(self, key: str) -> RequestedEffect | None:
        """Return the effect with this key; None if no earlier attempt has requested it."""
        return self._effects.get(key)

    def has_unrepeated_effect(self, attempt: int, tool_id: ToolId) -> bool:
        """Return whether an earlier attempt completed an effect of the tool that this attempt has not requested."""
        # A model may word the same call differently in the next attempt. The call then has another key, and the service
        # would carry out the effect twice.
        return any(
            each.tool_id == tool_id and each.attempt < attempt and each.result is EffectResult.DONE
            for each in self._effects.values()
        )

    def begin(self, key: str, attempt: int, tool_id: ToolId) -> RequestedEffect:
        """Add an effect whose key is about to be recorded."""
        effect = self._effects[key] = RequestedEffect(tool_id, attempt)
        return effect

    def keep(self, effect: RequestedEffect, answer: KeptAnswer) -> bool:
        """Store an answer for another attempt; return whether there was room."""
        size = len(answer.payload_json.encode())
        # Without the answer, the caller must allow no further attempt, because its repeated call could not be answered
        # from here. The limit exists because sub-agents could otherwise fill the memory of the process.
        if self._kept_bytes + size > KEPT_BYTES:
            return False
        self._kept_bytes += size
        effect.answer = answer
        return True
