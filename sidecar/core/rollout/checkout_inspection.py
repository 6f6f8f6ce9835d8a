"""Questions about a checkout of the configuration repository in a decommission, and their answers. Values only.

`adapters/definitions_directory/cleanup` answers them and never writes into the checkout. Source: PF1-FR-6, PF1-D-62.
"""

from dataclasses import dataclass
from typing import Final

from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus

MODULES: Final = "src/consumer_agent/agents"
"""The folder of the consumer-agent's sub-agent modules. Source: PF1-D-53."""
MANIFEST: Final = "evaluation_manifest.yaml"
MARK: Final = "# status: deprecated"
"""Marks a deprecated module; one of its first lines begins with it."""


class CheckoutRefused(Exception):
    """The checkout cannot be read, or cannot be changed line by line; the text has the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecommissionPatchRequest:
    """Which definition is decommissioned in a checkout, and which steps the patch covers.

    Attributes:
        definition_id, slot: as ids of the configuration.
        steps: the requested steps.
        blocks, tools: those that the definition named, as the sidecar keeps them; empty: read from its entry.
        rolled_back: ids in state `rollback`; they fill no slot, whatever the configuration says.
        code: what step 3 does with the modules.
        evals, tools_fate: the decisions; None: not decided yet.
        remove_entry: step 1 removes the entry instead of marking it.
        began, due: days, for comments; `2026-11-22`.
        modules: folder of the modules, relative to the top of the checkout or of the configuration.
    """

    definition_id: str
    slot: str
    steps: tuple[CleanupStep, ...]
    blocks: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    rolled_back: frozenset[str] = frozenset()
    code: CodeStatus = CodeStatus.GONE
    evals: Choice | None = None
    tools_fate: Choice | None = None
    remove_entry: bool = False
    began: str = ""
    due: str = ""
    modules: str = MODULES

    @property
    def entry_goes(self) -> bool:
        """Return whether the entry is removed; blocks cannot go while it names them."""
        return CleanupStep.BLOCKS in self.steps or (self.remove_entry and CleanupStep.ENTRY in self.steps)


@dataclass(frozen=True, slots=True)
class CleanupPatch:
    """The changes of a patch.

    Attributes:
        diff: for `git apply` at the top of the checkout; empty: there is nothing to change.
        does: the changes, a phrase each.
        notes: further tasks for a person, a sentence each.
    """

    diff: str
    does: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Leftover:
    """A part of the definition that is still in a checkout.

    Attributes:
        step: the step that removes it.
        where: file, from the top of the checkout, and line if there is one.
        what: a phrase.
    """

    step: CleanupStep
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class CheckoutReport:
    """The findings in a checkout.

    Attributes:
        left: empty: nothing that was searched for is left.
        state: the examined state: the commit, and whether files differ from it.
    """

    left: tuple[Leftover, ...]
    state: str
