"""The policy for a progress report: forward, transform, suppress or batch, by its type.

The policy is set per event type for the whole platform, never per sub-agent (PC2-D-21, TN-36). The client chooses the
words (TN-39).
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum, unique
from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

TYPE_FORM: Final = re.compile(r"[a-z][a-z0-9_]{2,63}\Z")
"""An identifier. Any other type is considered prose and dropped (PC2-FR-13a, TN-37)."""
ATTRIBUTES_AT_MOST: Final = 16
ATTRIBUTE_LENGTH: Final = 256


@unique
class Handling(StrEnum):
    """What happens to the reports of a type. Source: PC2-FR-13b."""

    FORWARD = "forward"
    TRANSFORM = "transform"
    SUPPRESS = "suppress"
    BATCH = "batch"


class EventRule(Struct, frozen=True):
    """The rule for one type.

    Attributes:
        becomes: the type that is forwarded instead, with TRANSFORM.
        window: how long reports are collected, with BATCH.
    """

    handling: Handling = Handling.FORWARD
    becomes: str = ""
    window: timedelta = timedelta(milliseconds=500)


class Vocabulary(Struct, frozen=True):
    """The known event types and their rules, and the rate limit of each child.

    Attributes:
        rules: by type.
        per_second, burst: of a token bucket per child; further reports are dropped and counted.
        silence: the time without a report after which `still_working` is reported for a running sub-agent. None: never.
    """

    rules: Mapping[str, EventRule]
    per_second: float = 20.0
    burst: int = 50
    silence: timedelta | None = None

    def __post_init__(self) -> None:
        """Drop rules whose type is not an identifier: reports of such a type are unknown."""
        rules = {name: rule for name, rule in self.rules.items() if TYPE_FORM.match(name)}
        force_setattr(self, "rules", rules)  # the struct is frozen; this is part of its construction


def bounded_attributes(attributes: Mapping[str, str]) -> dict[str, str]:
    """Return at most 16 attributes with values of at most 256 characters; a report is never refused for its size."""
    # Cut and not refused: the report tells that the sub-agent works, which matters more than its attributes.
    kept = list(attributes.items())[:ATTRIBUTES_AT_MOST]
    return {key[:ATTRIBUTE_LENGTH]: value[:ATTRIBUTE_LENGTH] for key, value in kept}
