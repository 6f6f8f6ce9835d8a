"""Finds the parts of one sub-agent in a checkout: entry, references, modules, blocks, tools, evaluations.

`inspect_checkout.py` reports them, and `patch_draft.py` removes them.
"""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

import yaml

from sidecar.adapters.definitions_directory.cleanup.yaml_text import PLAIN
from sidecar.adapters.definitions_directory.comparison import compare
from sidecar.adapters.definitions_directory.git_plumbing import Git
from sidecar.core.decoding import DecodeError, from_utf8
from sidecar.core.definitions.cards.card import AgentDefinition
from sidecar.core.definitions.files.names import PLATFORM_OWNER, REQUIRED_BLOCKS
from sidecar.core.definitions.files.registries import CONFIG_FILE, Registries
from sidecar.core.definitions.review.references import BaseSelection, ComparisonRefused
from sidecar.core.rollout.checkout_inspection import MANIFEST, MARK, CheckoutRefused, DecommissionPatchRequest

TAGS: Final = ("sub_agent", "subagent", "subagent_id", "sub_agent_id", "agent_id")
"""Keys that assign a part of `evaluation_manifest.yaml` to a sub-agent, e.g. `sub_agent: <id>`.

A section below `sub_agents` that is named after the id belongs to the sub-agent, too. If a part belongs to several
sub-agents, only this id is removed. Source: PF1-FR-6c, PF1-D-42.
"""
LISTS: Final = ("sub_agents", "subagents")
"""Keys of the manifest under which sub-agents are listed, or have sections of their own."""
Steps = tuple[str | int, ...]


def tagged(value: Any, name: str, at: Steps = ()) -> Iterator[Steps]:
    """Yield the path of each part of a manifest that belongs to a sub-agent, but no part inside another one.

    Args:
        value: the parsed manifest, or a part of it.
        name: the id of the sub-agent.
        at: the path of `value` in the manifest.
    """
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    for step, child in children:
        child_path = (*at, step)
        if _is_for(child, name) or (at and at[-1] in LISTS and step == name):
            yield child_path
        elif step in LISTS and isinstance(child, list) and name in child:
            yield from ((*child_path, number) for number, one in enumerate(child) if one == name)
        else:
            yield from tagged(child, name, child_path)


def values_in(value: Any) -> Iterator[Any]:
    """Yield all nested values. Raises `RecursionError` if a value contains itself."""
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from values_in(each)


def _is_for(value: Any, name: str) -> bool:
    """Return whether a part belongs to this sub-agent only."""
    if not isinstance(value, dict):
        return False
    return any(value.get(tag) == name for tag in TAGS) or any(value.get(key) == [name] for key in LISTS)


SECONDS: Final = 20.0
"""The time limit of a git command."""
HEAD_LINES: Final = 6
"""The number of first lines in which a module's mark `deprecated` must be."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a file that is read."""
MOST_VALUES: Final = 1_000_000
"""Maximum number of values in a manifest. A value that YAML aliases repeat counts each time."""


# Without `slots`, because `cached_property` stores its values in `__dict__`.
@dataclass(frozen=True)
class Checkout:
    """A checkout, and one sub-agent whose parts are searched in it.

    Attributes:
        root: the folder that contains `agent_config.yaml`.
        top: the top folder of the repository, or `root` outside a repository.
        registries: the parsed configuration.
        request: the sub-agent, and what the operator has decided about it.
    """

    root: Path
    top: Path
    registries: Registries
    request: DecommissionPatchRequest

    @property
    def entry(self) -> AgentDefinition | None:
        """The entry of the sub-agent; None: it was removed."""
        return self.registries.agents.get(self.request.definition_id)

    @property
    def others(self) -> tuple[AgentDefinition, ...]:
        """All entries except that of the sub-agent."""
        entries = self.registries.agents.entries
        return tuple(each.value for name, each in entries.items() if name != self.request.definition_id)

    @property
    def naming(self) -> tuple[AgentDefinition, ...]:
        """The entries that list the sub-agent's slot in `sub_agents`; empty if another definition fills the slot.

        The other definition still needs to be listed. Deprecated and rolled-back definitions do not fill a slot.
        """
        slot = self.entry.slot if self.entry else self.request.slot
        filled = any(
            each.slot == slot and not each.deprecated and each.id not in self.request.rolled_back
            for each in self.others
        )
        return () if filled else tuple(each for each in self.others if slot in each.sub_agents)

    @property
    def own_blocks(self) -> dict[str, str]:
        """The paths of the sub-agent's prompt blocks, by name, without those of the platform or other definitions."""
        # From the request, because the entry may have been removed by an earlier step.
        names = self.request.blocks or (self.entry.prompt_blocks if self.entry else ())
        used = {block for each in self.others for block in each.prompt_blocks}
        blocks = ((name, self.registries.blocks.get(name)) for name in names if name not in used)
        return {
            name: block.path
            for name, block in blocks
            if block is not None and block.owner != PLATFORM_OWNER and name not in REQUIRED_BLOCKS
        }

    @property
    def own_tools(self) -> tuple[str, ...]:
        """The names of the sub-agent's tools that the configuration still contains and no other definition uses."""
        names = self.request.tools or (self.entry.tools if self.entry else ())
        used = {tool for each in self.others for tool in each.tools}
        return tuple(name for name in names if name not in used and name in self.registries.tools)

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """The paths of the sub-agent's Python files, relative to the top. In a repository, only tracked ones count."""
        name = self.request.definition_id.replace("-", "_")
        paths: list[str] = []
        for base in dict.fromkeys((self.top / self.request.modules, self.root / self.request.modules)):
            for place in (base / f"{name}.py", base / name):
                paths += self._files_at(place)
        return tuple(dict.fromkeys(paths))

    @property
    def manifest(self) -> str:
        """The path of the evaluation manifest, relative to the top; empty: there is none."""
        file = self.root / MANIFEST
        return self.from_top(file) if file.is_file() else ""

    @property
    def evaluations(self) -> tuple[tuple[str | int, ...], ...]:
        """The paths of the parts of the manifest that belong to the sub-agent."""
        return tuple(tagged(self.manifest_data, self.request.definition_id)) if self.manifest else ()

    @cached_property
    def manifest_data(self) -> Any:
        """The content of the manifest, every scalar as text."""
        try:
            manifest = yaml.load(self.text(self.manifest), Loader=PLAIN)  # noqa: S506  builds text, lists and dicts only
            # The count stops at the limit: a few lines with nested aliases can mean billions of values.
            accepted = sum(1 for _ in islice(values_in(manifest), MOST_VALUES)) < MOST_VALUES
        except (yaml.YAMLError, RecursionError):
            raise CheckoutRefused(f"{self.manifest}: is not YAML that can be read; mend it first") from None
        if not accepted:
            raise CheckoutRefused(f"{self.manifest}: holds {MOST_VALUES} values or more; its aliases multiply them")
        return manifest

    def from_top(self, file: Path) -> str:
        """Return a path relative to the top, with slashes, as git writes it."""
        return file.relative_to(self.top).as_posix()

    def config_path(self, path: str) -> str:
        """Return a path of the configuration relative to the top."""
        return self.from_top(self.root / path)

    def line_of(self, name: str) -> int | None:
        """Return the line of an agent's entry in its file, counted from 1; None: not known."""
        place = self.registries.agents.entries[name].place
        return place.document.line_of(place.steps)

    def text(self, path: str) -> str:
        """Return the content of a file. Raises `CheckoutRefused` if it is not a text file, or is a link."""
        file = self.top / path
        try:
            # A patch of a link would change the file to which it leads, perhaps outside of the checkout.
            if os.path.realpath(file) != str(file):
                raise CheckoutRefused(f"{path}: is, or is behind, a symbolic link; change it by hand")
            content = file.read_bytes()
            if len(content) > MOST_BYTES:
                raise CheckoutRefused(f"{path}: is larger than {MOST_BYTES // 1024 // 1024} MiB")
            return from_utf8(content)
        except (OSError, DecodeError) as error:
            raise CheckoutRefused(f"{path}: cannot be read as text: {type(error).__name__}") from None

    def is_marked(self, path: str) -> bool:
        """Return whether a module is marked deprecated."""
        return any(line.startswith(MARK) for line in self.text(path).splitlines()[:HEAD_LINES])

    def state(self) -> str:
        """Return a description of this version: the commit, and whether files differ from it."""
        if not (self.top / ".git").exists():
            return "a folder outside git"
        commit = self._git("rev-parse", "--short=12", "HEAD")
        changed = self._git("status", "--porcelain")
        return f"commit {commit}" + (" with changes that are not committed" if changed else "")

    def _files_at(self, place: Path) -> Iterator[str]:
        if not place.exists():
            return
        if (self.top / ".git").exists():
            listed = self._git("--literal-pathspecs", "ls-files", "-z", "--", self.from_top(place))
            # git also lists files that were deleted but whose deletion is not committed.
            yield from (name for name in listed.split("\0") if name and (self.top / name).exists())
            return
        for file in [place] if place.is_file() else sorted(place.rglob("*.py")):
            yield self.from_top(file)

    def _git(self, *arguments: str) -> str:
        try:
            return os.fsdecode(Git.within(self.top, SECONDS)(*arguments)).strip()
        except (OSError, subprocess.SubprocessError) as error:
            raise CheckoutRefused(f"git cannot say what is in {self.top}: {_message_of(error)}") from None


def open_checkout(root: Path, request: DecommissionPatchRequest) -> Checkout:
    """Read a checkout. Raises `CheckoutRefused` if its configuration cannot be read, or does not load."""
    # The root may be reached over a link, but `Checkout.text` refuses every path with a link in it.
    root = root.resolve()
    if not (root / CONFIG_FILE).is_file():
        raise CheckoutRefused(f"{root} holds no {CONFIG_FILE}; give the folder that does with --checkout")
    try:
        head = compare(root, BaseSelection()).head
    except ComparisonRefused as refused:
        raise CheckoutRefused(str(refused)) from None
    if head.problems:
        more = f" (and {len(head.problems) - 1} more)" if len(head.problems) > 1 else ""
        raise CheckoutRefused(
            f"the configuration does not load as it is: {head.problems[0].render()}{more}; `sidecar validate` says all"
        )
    # In a linked worktree, `.git` is a file, so only its existence counts.
    top = next((each for each in (root, *root.parents) if (each / ".git").exists()), root)
    return Checkout(root, top, head.registries, request)


def _message_of(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return " ".join(os.fsdecode(error.stderr or b"").split()) or f"exit code {error.returncode}"
    return type(error).__name__
