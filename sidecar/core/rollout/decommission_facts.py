"""The recorded state of a decommission. Source: PF1-FR-6, PF1-D-41, PF1-D-42, REQUIREMENTS 6.16.

It is not a lifecycle state: the definition stays in `rollback` (PF1-FR-6f). A definition in `rollback` without a
decommission is only withdrawn, and no deadline applies to it (PF1-D-76).
"""

from datetime import datetime
from enum import StrEnum, unique

import msgspec


@unique
class CleanupStep(StrEnum):
    """The five steps, in their order. Source: PF1-D-41, TN-90."""

    ENTRY = "entry"
    """Its entry in `agent_config.yaml` is marked deprecated, or removed (TN-89)."""
    REFERENCES = "references"
    """No other entry names it in `sub_agents`."""
    MODULES = "modules"
    """Its Python modules are deleted, or marked deprecated for a while."""
    BLOCKS = "blocks"
    """The prompt blocks that only it used are deleted, and with them the entry that named them."""
    EVALS_AND_TOOLS = "evals_and_tools"
    """The decisions about its eval suite and its tools are carried out."""

    @property
    def number(self) -> int:
        """Its place, 1 to 5."""
        return tuple(CleanupStep).index(self) + 1

    @property
    def label(self) -> str:
        """Number and name, for people."""
        return f"{self.number} ({self.value.replace('_', ' ')})"


@unique
class Subject(StrEnum):
    """A subject of a separate decision. Source: PF1-D-42."""

    EVALS = "evals"
    TOOLS = "tools"


@unique
class Choice(StrEnum):
    """Source: PF1-FR-6c, PF1-FR-6e."""

    RETAIN = "retain"
    REMOVE = "remove"


@unique
class CodeStatus(StrEnum):
    """The state of the Python modules after step 3. Source: PF1-FR-6b."""

    GONE = "gone"
    """There are no modules (any more)."""
    DEPRECATED = "deprecated"
    """Marked for a limited time: the step must be repeated before the decommission can end (PF1-AC-7b)."""


class CompletedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One completed step.

    Attributes:
        confirmed: an operator's statement about what the sidecar cannot check; empty if it checked everything.
        definition_version: of the configuration in which the sidecar checked it.
        code: of step 3; None for the others.
    """

    step: CleanupStep
    at: datetime
    by: str
    reason: str
    confirmed: str = ""
    definition_version: str = ""
    code: CodeStatus | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's decision, and its reason."""

    choice: Choice
    at: datetime
    by: str
    reason: str


class Decommission(msgspec.Struct, frozen=True, kw_only=True):
    """One decommission, from its begin to its end.

    Attributes:
        due_at: end of the window, counted from the begin (TN-93).
        steps: in order; each at most once.
        evals, tools: None: not decided yet.
    """

    began_at: datetime
    due_at: datetime
    by: str
    reason: str
    steps: tuple[CompletedStep, ...] = ()
    evals: Decision | None = None
    tools: Decision | None = None

    def taken(self, step: CleanupStep) -> CompletedStep | None:
        """Return the record of a step; None: it was not completed."""
        return next((each for each in self.steps if each.step is step), None)

    def decided(self, matter: Subject) -> Decision | None:
        """Return the decision about a subject."""
        return self.evals if matter is Subject.EVALS else self.tools

    @property
    def next_step(self) -> CleanupStep | None:
        """The first step that was not completed; None: all were."""
        return next((step for step in CleanupStep if self.taken(step) is None), None)

    @property
    def undecided(self) -> tuple[Subject, ...]:
        """The subjects that still need a decision."""
        return tuple(matter for matter in Subject if self.decided(matter) is None)

    @property
    def code_gone(self) -> bool:
        """Return whether step 3 left no code. From then on, a decommission cannot be undone."""
        taken = self.taken(CleanupStep.MODULES)
        return taken is not None and taken.code is CodeStatus.GONE

    @property
    def finished_at(self) -> datetime | None:
        """The time at which the last part was completed; None: not completed.

        Deprecated code does not count as completed.
        """
        if self.next_step is not None or not self.code_gone:
            return None
        return max(each.at for each in self.steps)

    def overdue(self, now: datetime) -> bool:
        """Return whether the window has passed without an end. Source: PF1-NFR-5a, PF1-AC-7b, PF1-D-67."""
        return self.finished_at is None and now >= self.due_at
