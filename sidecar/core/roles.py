"""The roles of people and programs towards a sidecar."""

from enum import StrEnum, unique
from typing import Final


@unique
class Role(StrEnum):
    """A token has exactly one. Source: DESIGN section 12."""

    VIEWER = "viewer"
    """Reads."""
    OPERATOR = "operator"
    """Everything."""
    AUTOMATION = "automation"
    """A pipeline: reads, lowers ramps, reports breaches. Raising is for operators (PF1-D-64)."""
    BREAKER = "breaker"
    """A watchdog: takes away, and nothing else."""


CAUSES: Final = (
    *("missing", "repeated", "malformed", "signature", "audience"),
    *("not_yet_valid", "expired", "key", "role"),
    *("issuer", "issuer_away", "subject", "no_role"),
)
"""Why a call of an operator is not let in."""
