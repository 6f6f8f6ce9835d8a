"""The roles of people and programs towards a sidecar."""

from enum import StrEnum, unique
from typing import Final


@unique
class Role(StrEnum):
    """A token has exactly one. Source: DESIGN section 12."""

    VIEWER = "viewer"
    """May read."""
    OPERATOR = "operator"
    """May do everything."""
    AUTOMATION = "automation"
    """A pipeline: may read, lower ramps and report breaches. Only operators raise ramps (PF1-D-64)."""
    BREAKER = "breaker"
    """A watchdog: may only withdraw sub-agents."""


CAUSES: Final = (
    *("missing", "repeated", "malformed", "signature", "audience"),
    *("not_yet_valid", "expired", "key", "role"),
    *("issuer", "issuer_away", "subject", "no_role"),
)
"""Why a call of an operator is not let in."""
