"""Finds the parts of a decommissioned sub-agent that a checkout still contains (PF1-AC-7b).

The command that drafts the patch, and the proof that a decommission is complete, use this module. Each private function
handles one step of the decommission.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from sidecar.adapters.definitions_directory.cleanup.reading import Checkout, open_checkout
from sidecar.core.definitions.files.registries import CONFIG_FILE
from sidecar.core.rollout.checkout_inspection import CheckoutReport, DecommissionPatchRequest, Leftover
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus


def look(root: Path, request: DecommissionPatchRequest) -> CheckoutReport:
    """Return the parts that the steps of `request` must still remove or mark, and the state of the checkout.

    Args:
        root: the folder that contains `agent_config.yaml`.
        request: the sub-agent, the steps, and the choices of the operator.

    Raises:
        CheckoutRefused: the checkout cannot be read.
    """
    checkout = open_checkout(root, request)
    return CheckoutReport(tuple(left for step in request.steps for left in LOOKS[step](checkout)), checkout.state())


def _entry(checkout: Checkout) -> Iterator[Leftover]:
    entry = checkout.entry
    if entry is None:
        return
    name = checkout.request.definition_id
    where = f"{checkout.config_path(CONFIG_FILE)}:{checkout.line_of(name)}"
    if checkout.request.entry_goes:
        yield Leftover(CleanupStep.ENTRY, where, f"the entry of {name}")
    elif not entry.deprecated:
        yield Leftover(CleanupStep.ENTRY, where, f"the entry of {name}, not marked `status: deprecated`")


def _references(checkout: Checkout) -> Iterator[Leftover]:
    for each in checkout.naming:
        where = f"{checkout.config_path(CONFIG_FILE)}:{checkout.line_of(each.id)}"
        yield Leftover(CleanupStep.REFERENCES, where, f"{each.id} names it in `sub_agents`")


def _modules(checkout: Checkout) -> Iterator[Leftover]:
    for path in checkout.modules:
        if checkout.request.code is CodeStatus.GONE:
            yield Leftover(CleanupStep.MODULES, path, "a Python module of it")
        elif path.endswith(".py") and not checkout.is_marked(path):
            yield Leftover(CleanupStep.MODULES, path, "a Python module of it, not marked deprecated")


def _blocks(checkout: Checkout) -> Iterator[Leftover]:
    # While the entry is there, it uses the blocks, so it counts as a leftover of this step, too.
    if CleanupStep.ENTRY not in checkout.request.steps:
        yield from _entry(checkout)
    for name, path in checkout.own_blocks.items():
        yield Leftover(
            CleanupStep.BLOCKS, checkout.config_path(path), f"the prompt block {name}, which no other definition uses"
        )


def _evals_and_tools(checkout: Checkout) -> Iterator[Leftover]:
    step, request = CleanupStep.EVALS_AND_TOOLS, checkout.request
    if request.tools_fate is Choice.REMOVE:
        for name in checkout.own_tools:
            yield Leftover(step, checkout.config_path(CONFIG_FILE), f"the tool {name}, which no other definition uses")
    if request.evals is Choice.REMOVE:
        for steps in checkout.evaluations:
            yield Leftover(step, checkout.manifest, f"evaluations of it at {'.'.join(map(str, steps))}")


LOOKS: Final[Mapping[CleanupStep, Callable[[Checkout], Iterator[Leftover]]]] = {
    CleanupStep.ENTRY: _entry,
    CleanupStep.REFERENCES: _references,
    CleanupStep.MODULES: _modules,
    CleanupStep.BLOCKS: _blocks,
    CleanupStep.EVALS_AND_TOOLS: _evals_and_tools,
}
