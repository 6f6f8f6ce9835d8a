"""The number of intents of a response, and whether it called sub-agents that are new in the conversation."""

from collections.abc import Sequence

import msgspec

from sidecar.core.identifiers import Slot


class IntentReport(msgspec.Struct, frozen=True):
    """Both counts, since each alone hides something (TN-16).

    Attributes:
        declared: what the model said; 0 if it did not say.
        emitted: distinct sub-agents called, before the cap (TN-17, PC2-D-64).
        switched: a called sub-agent was not in the episode's last dispatching turn.
        prior_context_missing: switched, and a called sub-agent that is new got no summary.
    """

    declared: int
    emitted: int
    switched: bool
    prior_context_missing: bool

    @property
    def failsafe(self) -> bool:
        """The model declared more than it called: it should be asked again. Source: PC1-NFR-2b."""
        return self.declared > self.emitted


def newly_called(called: Sequence[Slot], previous: Sequence[Slot] | None) -> Sequence[Slot]:
    """Return the called sub-agents that the last dispatching turn did not call; if there are any, the intent switched.

    Args:
        called: slots of this response.
        previous: slots of the last dispatching turn; empty for the first; None if it could not be found out.

    An episode without an earlier dispatch cannot switch: there is no cross-vertical context to carry (PC1-FR-8a).
    Unknown is not a switch, because asking for a summary that may have nothing to sum up would be a guess.
    """
    return [slot for slot in called if slot not in previous] if previous else []
