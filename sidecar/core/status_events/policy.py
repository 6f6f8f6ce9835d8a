"""What becomes of a progress report: forward, transform, suppress or batch, by its type.

Set per event type for the whole platform, never per sub-agent (PC2-D-21, TN-36). Words are made by the client (TN-39).
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum, unique
from typing import Final

from msgspec import Struct

TYPE_FORM: Final = re.compile(r"[a-z][a-z0-9_]{2,63}\Z")
"""An identifier; anything else is taken for prose and dropped (PC2-FR-13a, TN-37)."""
ATTRIBUTES_AT_MOST: Final = 16
ATTRIBUTE_LENGTH: Final = 256


@unique
class Handling(StrEnum):
    """Source: PC2-FR-13b."""

    FORWARD = "forward"
    TRANSFORM = "transform"
    SUPPRESS = "suppress"
    BATCH = "batch"


class EventRule(Struct, frozen=True):
    """What to do with one type.

    Attributes:
        becomes: the type it is passed on as, with TRANSFORM.
        window: how long reports are gathered, with BATCH.
    """

    handling: Handling = Handling.FORWARD
    becomes: str = ""
    window: timedelta = timedelta(milliseconds=500)


class Vocabulary(Struct, frozen=True):
    """The known event types and their rules, and how fast one child may report.

    Attributes:
        per_second, burst: of a token bucket per child; what is over is dropped and counted.
        silence: of a sub-agent that runs; after so long `still_working` is reported for it. None: never.
    """

    rules: Mapping[str, EventRule]
    per_second: float = 20.0
    burst: int = 50
    silence: timedelta | None = None

    def rule_for(self, event_type: str) -> EventRule | None:
        """Return the rule of a type, or None if it is unknown or no identifier at all."""
        return self.rules.get(event_type) if TYPE_FORM.match(event_type) else None


def bounded_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return at most 16 attributes with values of at most 256 characters; a report is never refused for its size."""
    kept = list(attributes.items())[:ATTRIBUTES_AT_MOST]
    return {key[:ATTRIBUTE_LENGTH]: value[:ATTRIBUTE_LENGTH] for key, value in kept}
