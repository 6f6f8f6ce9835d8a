"""What the form of a step holds."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sidecar.cli.subagent.steps import Verb

FIELDS: Final = (
    *("step", "definition_id", "digest", "percent", "to", "mode", "curve", "gate", "until", "breach", "reason"),
    *("code", "checked", "matter", "choice", "revision", "request_id"),
)
"""Of a posted form."""


@dataclass(slots=True)
class StepForm:
    """What the form of a step holds.

    Attributes:
        revision: of the slot, as the operator saw it; empty: it is not read.
        request_id: one for each attempt, so that a form that is sent twice takes the step once.
        verbs: what the step is; empty if it cannot be told yet.
        checked: what the operator checked before a step of a decommission.
        wrong: what is wrong with the form, or why the step was refused.
        lines: what a sidecar answered, with the style of the command line.
        slot, definition: as they were read for the form; None: the step reads nothing.
    """

    step: str
    definition_id: str
    digest: str
    percent: str = ""
    to: str = ""
    mode: str = ""
    curve: str = ""
    gate: str = ""
    until: str = ""
    breach: str = ""
    code: str = ""
    checked: str = ""
    matter: str = ""
    choice: str = ""
    reason: str = ""
    revision: str = ""
    request_id: str = field(default_factory=lambda: f"console-{uuid.uuid4()}")
    verbs: Sequence[Verb] = ()
    wrong: str = ""
    lines: list[tuple[str, str]] = field(default_factory=list)
    done: bool = False
    slot: Any = None
    definition: Any = None

    @property
    def danger(self) -> str:
        """What has to be confirmed; empty: nothing."""
        return "\n".join(verb.danger for verb in self.verbs if verb.danger)
