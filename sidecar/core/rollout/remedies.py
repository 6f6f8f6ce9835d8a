"""Remedies for refused steps, as metadata of the refusal, for programs that advise operators."""

from enum import StrEnum, unique
from typing import Final

REMEDY: Final = "remedy"
"""Key of the metadata."""
STEP: Final = "step"
"""Key of the metadata: the number of the next step of a decommission, 1 to 5."""

CHOICES: Final = "choices"
"""Key of the metadata: the possible ids and `NO_DEFINITION`, separated by `|`."""
NO_DEFINITION: Final = "none"


@unique
class Remedy(StrEnum):
    """What must happen first, usually another step."""

    PROMOTE = "promote"
    """The definition must be in `promote`."""
    FIRST_RAMP = "first_ramp"
    """A smaller share of users first."""
    DECLARED_RAMP = "declared_ramp"
    """A step of the declared curve, or another curve."""
    ACKNOWLEDGE = "acknowledge"
    """An operator acknowledges the open breach."""
    NAME_TARGET = "name_target"
    """The operator must name the definition that serves after the rollback; metadata `choices` lists the ids."""
    NEW_DEFINITION = "new_definition"
    """No step helps: `rollback` is terminal, also after a kill; another content of the definition begins at `dev`."""
    ROLL_BACK = "roll_back"
    """The definition must be in `rollback`."""
    BEGIN_DECOMMISSION = "begin_decommission"
    """The decommission has not begun."""
    DECOMMISSION_STEP = "decommission_step"
    """An earlier step; metadata `step` has its number."""
    DECIDE = "decide"
    """An operator must decide whether evals and tools are retained or removed."""
    CLEAN_UP = "clean_up"
    """A change of the configuration."""
    WAIT_FOR_TURNS = "wait_for_turns"
    """Open turns must end."""
