"""Drafts a patch for the next steps of a decommission, which people review and apply (PF1-D-41, D-62).

The checkout is only read. Before the patch is returned, it is checked that each changed file has exactly the intended
content and that the configuration loads.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sidecar.adapters.definitions_directory.cleanup.checked_yaml import CheckedYaml
from sidecar.adapters.definitions_directory.cleanup.diffing import FileChange, diff_of
from sidecar.adapters.definitions_directory.cleanup.reading import Checkout, open_checkout
from sidecar.adapters.definitions_directory.files import read_tree
from sidecar.adapters.definitions_directory.yaml_documents import parse
from sidecar.core.definitions.files.registries import CONFIG_FILE
from sidecar.core.definitions.resolve import load_documents
from sidecar.core.definitions.review.overrides import COMMENT
from sidecar.core.rollout.checkout_inspection import MARK, CheckoutRefused, CleanupPatch, DecommissionPatchRequest
from sidecar.core.rollout.decommission_facts import Choice, CleanupStep, CodeStatus

BEFORE_CODE: Final = re.compile(r"#!|#.*coding[:=]")
"""Lines that must stay at the beginning of a module, such as a shebang."""


@dataclass(slots=True)
class PatchDraft:
    """The patch while the steps add to it.

    Attributes:
        checkout: the checkout without the changes.
        files: the new text of each changed file, by path relative to the top; None: the file is deleted.
        yaml: files that are changed line by line, by path.
        does: what the patch does, one clause for each change.
        notes: what people must do themselves.
    """

    checkout: Checkout
    files: dict[str, str | None] = field(default_factory=dict)
    yaml: dict[str, CheckedYaml] = field(default_factory=dict)
    does: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def request(self) -> DecommissionPatchRequest:
        """The requested steps."""
        return self.checkout.request

    @property
    def config(self) -> CheckedYaml:
        """The file `agent_config.yaml`."""
        return self.opened(self.checkout.config_path(CONFIG_FILE))

    def opened(self, path: str) -> CheckedYaml:
        """Return a YAML file for changes line by line."""
        if path not in self.yaml:
            self.yaml[path] = CheckedYaml(self.checkout.text(path), path)
        return self.yaml[path]

    def remove_entry(self, section: str, name: str) -> None:
        """Remove an entry of `agent_config.yaml`, if it is there."""
        index = self.config.index(section, name)
        if index is not None:
            self.config.remove(section, index)
            self.does.append(f"removes {name} from `{section}`")


def patch_of(root: Path, request: DecommissionPatchRequest) -> CleanupPatch:
    """Return the patch for the steps of `request`.

    Raises:
        CheckoutRefused: the checkout cannot be read, a decision is missing, or the change cannot be made line by line.
    """
    checkout = open_checkout(root, request)
    draft = PatchDraft(checkout)
    for step in request.steps:
        STEPS[step](draft)
    # After all steps, because several steps may change one file.
    draft.files |= {path: file.text() for path, file in draft.yaml.items()}
    changed = {path: text for path, text in sorted(draft.files.items()) if text != checkout.text(path)}
    # A patch that breaks the configuration must never be returned.
    _refuse_unloadable(checkout, changed)
    diff = diff_of([FileChange(path, checkout.top / path, text) for path, text in changed.items()])
    return CleanupPatch(diff, tuple(draft.does), tuple(draft.notes))


def _entry(draft: PatchDraft) -> None:
    if draft.request.entry_goes:
        draft.remove_entry("agents", draft.request.definition_id)
    elif draft.checkout.entry is not None and not draft.checkout.entry.deprecated:
        _mark_deprecated(draft)
    # In the same patch, because check c of `validate-refs` rejects the removal of an entry that is still referenced.
    _references(draft)


def _mark_deprecated(draft: PatchDraft) -> None:
    """Write `status: deprecated`, and set an existing `deprecated: false` to true. Source: TN-88, TN-89."""
    name = draft.request.definition_id
    # `or 0` only satisfies the type checker: the entry exists.
    at = ("agents", draft.config.index("agents", name) or 0)
    entry = draft.config.data["agents"][at[1]]
    if "deprecated" in entry:
        draft.config.replace("true", *at, "deprecated")
    if "status" in entry:
        draft.config.replace("deprecated", *at, "status")
    else:
        draft.config.add_after("status", "deprecated", *at, "id")
    draft.config.comment(_minor_change_comment(draft.request), "status", *at)
    draft.does.append(f"marks {name} `status: deprecated`")


def _references(draft: PatchDraft) -> None:
    request = draft.request
    slot = draft.checkout.entry.slot if draft.checkout.entry else request.slot
    for each in draft.checkout.naming:
        at = ("agents", draft.config.index("agents", each.id) or 0)
        listed = draft.config.data["agents"][at[1]]["sub_agents"]
        # An earlier step of this patch has removed it already.
        if slot not in listed:
            continue
        # From the last to the first: each removal moves the items behind it.
        for index in reversed([index for index, name in enumerate(listed) if name == slot]):
            draft.config.remove(*at, "sub_agents", index)
        draft.config.comment(_minor_change_comment(request), "sub_agents", *at)
        draft.does.append(f"takes {slot} off `sub_agents` of {each.id}")
        # `listed` is a part of `data`, from which `remove` has deleted the slot.
        if not listed:
            draft.notes.append(f"{each.id} can no longer delegate to any sub-agent; check whether it is still needed")


def _modules(draft: PatchDraft) -> None:
    for path in draft.checkout.modules:
        if draft.request.code is CodeStatus.GONE:
            draft.files[path] = None
            draft.does.append(f"deletes {path}")
        elif path.endswith(".py") and not draft.checkout.is_marked(path):
            draft.files[path] = _marked_module(draft.checkout.text(path), draft.request)
            draft.does.append(f"marks {path} deprecated")
    if not draft.checkout.modules:
        draft.notes.append(
            f"no module of {draft.request.definition_id} is below {draft.request.modules}; see whether there is code "
            f"elsewhere"
        )


def _blocks(draft: PatchDraft) -> None:
    """Delete prompt blocks that no other definition uses, and the entry that names them."""
    # Computed first: without the entry, its blocks could not be found.
    own_blocks = draft.checkout.own_blocks
    if draft.checkout.entry is not None:
        draft.remove_entry("agents", draft.request.definition_id)
        _references(draft)
    for name, path in own_blocks.items():
        draft.files[draft.checkout.config_path(path)] = None
        draft.does.append(f"deletes the prompt block {name}")
    if own_blocks:
        draft.notes.append("if CODEOWNERS is made by `sidecar codeowners`, make it anew after this")


def _evals_and_tools(draft: PatchDraft) -> None:
    request, checkout = draft.request, draft.checkout
    if request.evals is None or request.tools_fate is None:
        raise CheckoutRefused(
            f"no decision yet about evals and tools of {request.definition_id}; "
            f"`sidecar subagent decommission decide {request.definition_id} …`, then run this again"
        )
    if request.tools_fate is Choice.REMOVE:
        for name in checkout.own_tools:
            draft.remove_entry("tools", name)
    if request.evals is Choice.REMOVE:
        # From the last to the first: each removal moves the parts behind it.
        for steps in reversed(checkout.evaluations):
            draft.opened(checkout.manifest).remove(*steps)
            draft.does.append(f"removes {'.'.join(map(str, steps))} from {checkout.manifest}")
        draft.notes.append("data sets and judge configurations outside of this repository are yours to remove")


def _marked_module(text: str, request: DecommissionPatchRequest) -> str:
    lines = text.splitlines(keepends=True)
    # A shebang or a declaration of the encoding has no effect below its place, so the mark comes after it.
    at = next((number for number, line in enumerate(lines) if not BEFORE_CODE.match(line)), len(lines))
    newline = "\r\n" if "\r\n" in text else "\n"
    until = f", to be deleted by {request.due}" if request.due else ""
    return "".join((*lines[:at], f"{MARK}: {request.definition_id} is decommissioned{until}{newline}", *lines[at:]))


def _minor_change_comment(request: DecommissionPatchRequest) -> str:
    """Return the comment `minor-change: REASON`, which check d of `validate-refs` requires (PF1-FR-12e)."""
    since = f", begun {request.began}" if request.began else ""
    return f"{COMMENT} {request.definition_id} is decommissioned{since}"


def _refuse_unloadable(checkout: Checkout, changed: Mapping[str, str | None]) -> None:
    under = checkout.config_path("")
    prefix = "" if under == "." else f"{under}/"
    # The configuration as it will be: present files with the changes. Modules and manifests are not part of it.
    files = read_tree(checkout.root).files
    for path, text in changed.items():
        name = path.removeprefix(prefix)
        if name in files:
            files = {each: content for each, content in files.items() if each != name}
            files |= {} if text is None else {name: text.encode()}
    parsed = [parse(content, path) for path, content in files.items()]
    loaded = load_documents(
        [each.document for each in parsed if each.document is not None],
        earlier=[problem for each in parsed for problem in each.problems],
    )
    if loaded.errors:
        raise CheckoutRefused(f"after the change the configuration would not load: {loaded.errors[0].render()}")


STEPS: Final[Mapping[CleanupStep, Callable[[PatchDraft], None]]] = {
    CleanupStep.ENTRY: _entry,
    CleanupStep.REFERENCES: _references,
    CleanupStep.MODULES: _modules,
    CleanupStep.BLOCKS: _blocks,
    CleanupStep.EVALS_AND_TOOLS: _evals_and_tools,
}
