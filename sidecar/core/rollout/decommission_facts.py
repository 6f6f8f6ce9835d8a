"""The recorded state of a decommission. Source: PF1-FR-6, PF1-D-41, PF1-D-42, REQUIREMENTS 6.16.

A decommission removes a definition from the configuration in five steps. It is not a lifecycle state: during and after
it, the definition stays in `rollback` (PF1-FR-6f). A definition in `rollback` without a decommission is only withdrawn:
it may stay in the configuration without a deadline (PF1-D-76).
"""

from datetime import datetime
from enum import StrEnum, unique

import msgspec


@unique
class CleanupStep(StrEnum):
    """The five steps, in the order in which an operator completes them. Source: PF1-D-41, TN-90."""

    ENTRY = "entry"
    """The definition's entry in `agent_config.yaml` is marked deprecated, or removed (TN-89)."""
    REFERENCES = "references"
    """No other entry names the definition's slot in `sub_agents`."""
    MODULES = "modules"
    """The sub-agent's Python modules are deleted, or marked deprecated (see `CodeStatus`)."""
    BLOCKS = "blocks"
    """Prompt blocks that no other entry uses are deleted, together with the entry itself."""
    EVALS_AND_TOOLS = "evals_and_tools"
    """The decisions about the eval suite and the tools (see `Subject`) are applied to the files."""

    @property
    def number(self) -> int:
        """The step's number, 1 to 5."""
        return tuple(CleanupStep).index(self) + 1

    @property
    def label(self) -> str:
        """Number and name, as commands print them, e.g. `5 (evals and tools)`."""
        return f"{self.number} ({self.value.replace('_', ' ')})"


@unique
class Subject(StrEnum):
    """What an operator decides about separately, before step 5: retain or remove it. Source: PF1-D-42."""

    EVALS = "evals"
    TOOLS = "tools"


@unique
class Choice(StrEnum):
    """The two possible decisions. Source: PF1-FR-6c, PF1-FR-6e."""

    RETAIN = "retain"
    REMOVE = "remove"


@unique
class CodeStatus(StrEnum):
    """The state of the Python modules after step 3. Source: PF1-FR-6b."""

    GONE = "gone"
    """No module of the sub-agent exists."""
    DEPRECATED = "deprecated"
    """Modules exist, marked deprecated. To end the decommission, step 3 must be repeated as `GONE` (PF1-AC-7b)."""


class CompletedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One completed step.

    Attributes:
        by: the operator.
        confirmed: the operator's statement about what the sidecar cannot check; empty if it checked everything.
        definition_version: the version of the configuration that the sidecar checked.
        code: the state of the modules after step 3; None for the other steps.
    """

    step: CleanupStep
    at: datetime
    by: str
    reason: str
    confirmed: str = ""
    definition_version: str = ""
    code: CodeStatus | None = None


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """An operator's decision about one subject, with its reason."""

    choice: Choice
    at: datetime
    by: str
    reason: str


class Decommission(msgspec.Struct, frozen=True, kw_only=True):
    """One decommission, from `begin` to its last step.

    Attributes:
        due_at: until when the decommission should be complete. A later one is only reported as overdue (TN-93).
        by: the operator who began the decommission.
        steps: the completed steps in order. A repeated step replaces its earlier record.
        evals, tools: the decisions; None if not decided yet.
    """

    began_at: datetime
    due_at: datetime
    by: str
    reason: str
    steps: tuple[CompletedStep, ...] = ()
    evals: Decision | None = None
    tools: Decision | None = None

    def taken(self, step: CleanupStep) -> CompletedStep | None:
        """Return the record of a step, or None if the step is not completed."""
        return next((each for each in self.steps if each.step is step), None)

    def decided(self, matter: Subject) -> Decision | None:
        """Return the decision about a subject."""
        return self.evals if matter is Subject.EVALS else self.tools

    @property
    def next_step(self) -> CleanupStep | None:
        """The first step that is not completed, or None."""
        return next((step for step in CleanupStep if self.taken(step) is None), None)

    @property
    def undecided(self) -> tuple[Subject, ...]:
        """The subjects that still need a decision."""
        return tuple(matter for matter in Subject if self.decided(matter) is None)

    @property
    def code_gone(self) -> bool:
        """Whether step 3 is recorded with all modules deleted. From then on, the decommission cannot be undone."""
        taken = self.taken(CleanupStep.MODULES)
        return taken is not None and taken.code is CodeStatus.GONE

    @property
    def finished_at(self) -> datetime | None:
        """The time of the newest step, or None if the decommission is not complete.

        It is not complete while modules exist, even if they are marked deprecated.
        """
        if self.next_step is not None or not self.code_gone:
            return None
        # Not the time of step 5: step 3 may have been repeated after it.
        return max(each.at for each in self.steps)

    def overdue(self, now: datetime) -> bool:
        """Return whether `due_at` has passed and a step is missing. Source: PF1-NFR-5a, PF1-AC-7b, PF1-D-67."""
        return self.finished_at is None and now >= self.due_at
