"""The content of the form with which an operator takes a step of a rollout in the console; used by `step_page`."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sidecar.cli.subagent.steps import Verb

FIELDS: Final = (
    *("step", "definition_id", "digest", "percent", "to", "mode", "curve", "gate", "until", "breach", "reason"),
    *("code", "checked", "matter", "choice", "revision", "request_id"),
)
"""The fields of a posted form."""


@dataclass(slots=True)
class StepForm:
    """The content of the form, as text, and what is shown with it. Which fields a step needs depends on `step`.

    Attributes:
        percent: the ramp after the step.
        to: the successor after a rollback: an id, a digest or `none`.
        until: the end of an override, as a duration or a time.
        breach: the id of the breach.
        code: whether modules are deleted or deprecated.
        checked: what the operator checked before a step of a decommission.
        revision: the revision of the slot that the operator saw; empty: the step does not read the slot.
        request_id: identifies the step, so that a form that is sent twice takes the step once.
        verbs: the requests that make up the step; empty if the form is incomplete.
        wrong: what is wrong with the form, or why the step was refused.
        lines: the answer of the sidecar, line by line, each with its style.
        done: whether the step was taken.
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
        """What the operator has to confirm; empty: the step needs no confirmation."""
        return "\n".join(verb.danger for verb in self.verbs if verb.danger)
