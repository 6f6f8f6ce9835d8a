"""What a child's calls of data services came to."""

from collections.abc import Set

from msgspec import Struct, field

from sidecar.core.identifiers import ToolId
from sidecar.core.replaying.frames import Effect


class DataUse(Struct):
    """What a child's calls of data services came to.

    Attributes:
        calls: through the gateway.
        released: payloads that the sub-agent really got.
        barred_below: a service may have answered for somebody else to a child that this one delegated to.
        budget_hit: a call was refused because the budget was used up.
        effects_sent: calls that change something, those of children that this one delegated to included.
        effects_unknown: those of them of which no result is known; the child then ends with `EFFECT_UNKNOWN`.
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
        """Tools whose service may have answered for somebody else; this child does not get to ask them again."""
        return self._barred

    @property
    def barred_anywhere(self) -> bool:
        """Whether an answer may have been for somebody else, here or below."""
        return self.barred_below or bool(self._barred)

    @property
    def forces_degraded(self) -> bool:
        """No data call succeeded, or one was withheld for its principal. Source: DESIGN section 5."""
        return self.barred_below or bool(self._barred) or (self.calls > 0 and self.released == 0)

    def count(self, effect: Effect, tool_id: ToolId) -> None:
        """Count what the tool gateway did."""
        match effect:
            case Effect.CALLED:
                self.calls += 1
            case Effect.RELEASED:
                self.released += 1
            case Effect.BARRED:
                self._barred.add(tool_id)
            case Effect.BUDGET:
                self.budget_hit = True
            case Effect.WITHHELD:
                pass  # what counts is that nothing was released
            case Effect.SENT:
                self.effects_sent += 1
                self.effects_unknown += 1
            case Effect.SETTLED:
                self.effects_unknown -= 1
            case Effect.FINAL:
                self.final = True

    def count_below(self, sent: int, unknown: int, *, barred: bool) -> None:
        """Count what a delegation came to: another attempt would delegate anew, to a child with other keys."""
        self.barred_below = self.barred_below or barred
        self.effects_sent += sent
        self.effects_unknown += unknown
        self.final = self.final or sent > 0
