"""One row of the requirement catalogue."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A behaviour that a test, or a written reason in its place, must settle."""

    id: str
    """Kind and number, such as `PC2-FR-7c`; never reused for another behaviour."""
    sentence: str
    """What must hold, in one sentence."""
    source: str
    """Where the requirement documents say so."""
