"""The number of intents of a response, and whether it called sub-agents that are new in the conversation."""

from collections.abc import Sequence

import msgspec

from sidecar.core.identifiers import Slot


class IntentReport(msgspec.Struct, frozen=True):
    """Both counts of intents; each alone would hide something (TN-16).

    Attributes:
        declared: by the model; 0 if it declared none.
        emitted: distinct sub-agents that were called, before the cap (TN-17, PC2-D-64).
        switched: a called sub-agent was not called in the episode's last dispatching turn.
        prior_context_missing: switched, and a newly called sub-agent got no summary.
    """

    declared: int
    emitted: int
    switched: bool
    prior_context_missing: bool

    @property
    def failsafe(self) -> bool:
        """Whether the model declared more intents than it called sub-agents: it should be asked again.

        Source: PC1-NFR-2b.
        """
        return self.declared > self.emitted


def newly_called(called: Sequence[Slot], previous: Sequence[Slot] | None) -> Sequence[Slot]:
    """Return the called sub-agents that the last dispatching turn did not call; if there are any, the intent switched.

    Args:
        called: slots of this response.
        previous: slots of the last dispatching turn; empty for the first turn; None if unknown.

    An episode without an earlier dispatch cannot switch: there is no cross-vertical context to carry (PC1-FR-8a).
    Unknown is not a switch either: the parent would be asked for a summary although there may be nothing to summarise.
    """
    return [slot for slot in called if slot not in previous] if previous else []
