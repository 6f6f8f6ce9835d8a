"""Reads parsed files into the four registries: agents, models, tools, prompt blocks. Source: PC1-D-1."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, Generic, TypeVar

from msgspec import Struct

from sidecar.core.definitions.cards.card import AgentDefinition, ModelEntry, PromptBlock, ToolEntry
from sidecar.core.definitions.files.agent_entries import read_agent
from sidecar.core.definitions.files.documents import Document, Entry, SourceLocation
from sidecar.core.definitions.files.fields import Fields, kind_of
from sidecar.core.definitions.files.names import MODEL_KEY, PLATFORM_BLOCKS, PLATFORM_OWNER
from sidecar.core.definitions.files.problems import Problem, quoted
from sidecar.core.definitions.files.registry_entries import read_block, read_model, read_tool

CONFIG_FILE: Final = "agent_config.yaml"
BLOCKS_FOLDER: Final = "prompts/components"
SECTIONS: Final = ("agents", "models", "tools")

T = TypeVar("T", AgentDefinition, ModelEntry, ToolEntry, PromptBlock)


class Registry(Struct, Generic[T], frozen=True):
    """Entries by id, in file order. If an id occurs twice, the first entry counts; the problem is already reported."""

    entries: Mapping[str, Entry[T]]

    def __contains__(self, key: str) -> bool:
        """Return whether an entry has that id."""
        return key in self.entries

    def __getitem__(self, key: str) -> T:
        """Return the entry with that id; `KeyError` if there is none."""
        return self.entries[key].value

    def get(self, key: str) -> T | None:
        """Return the entry with that id, or None."""
        entry = self.entries.get(key)
        return None if entry is None else entry.value

    @property
    def ids(self) -> tuple[str, ...]:
        """Every id, in file order."""
        return tuple(self.entries)


class Registries(Struct, frozen=True):
    """All that was read. `unread_blocks`: names of block files that could not be parsed, so that they may exist."""

    agents: Registry[AgentDefinition]
    models: Registry[ModelEntry]
    tools: Registry[ToolEntry]
    blocks: Registry[PromptBlock]
    config: SourceLocation | None
    unread_blocks: frozenset[str]


def read_registries(documents: Sequence[Document], unread: Sequence[str], problems: list[Problem]) -> Registries:
    """Read every file.

    Args:
        documents: the parsed files; `agent_config.yaml` and those below `prompts/components/`.
        unread: paths of files that could not be parsed; `problems` already contains the reasons.
        problems: where problems are added.
    """
    config = next((document for document in documents if document.path == CONFIG_FILE), None)
    # A file that exists and cannot be parsed is already reported.
    if config is None and CONFIG_FILE not in unread:
        problems.append(Problem(CONFIG_FILE, None, "", "is missing; it holds `agents`, `models` and `tools`"))
    top = SourceLocation(config) if config is not None else None
    if top is not None:
        # Only for its check of the keys.
        Fields(top, SECTIONS, problems)
    blocks = [read_block(document, problems) for document in documents if document.path != CONFIG_FILE]
    _check_folders(blocks, problems)
    return Registries(
        agents=_registry("agents", _entries(top, "agents", read_agent, problems), problems),
        models=_registry("models", _entries(top, "models", read_model, problems), problems),
        tools=_registry("tools", _entries(top, "tools", read_tool, problems), problems),
        blocks=_registry("prompt blocks", blocks, problems),
        config=top,
        # A block's name is its `name` field, which cannot be read here; the file name is the best guess.
        unread_blocks=frozenset(PurePosixPath(path).stem for path in unread),
    )


def _entries(
    top: SourceLocation | None,
    section: str,
    read: Callable[[SourceLocation, list[Problem]], Entry[T]],
    problems: list[Problem],
) -> list[Entry[T]]:
    """Read one section of `agent_config.yaml`. Messages name entries by their id if it is valid."""
    if top is None or not isinstance(top.value, dict):
        return []
    place = top.at(section)
    if not isinstance(place.value, list):
        # A configuration without agents serves nothing; models and tools may be left out.
        if section == "agents" or place.value is not None:
            problems.append(place.error(f"must be a list of entries, not {kind_of(place)}"))
        return []
    return [read(_called_by_id(place, index), problems) for index in range(len(place.value))]


def _called_by_id(section: SourceLocation, index: int) -> SourceLocation:
    """Return the place of an entry, labelled by its id if it is valid, otherwise by its position."""
    place = section.at(index)
    name = place.at("id").value
    # The widest form of ids, which also covers agents and tools.
    if isinstance(name, str) and MODEL_KEY.match(name):
        return place.called(f"{section.label}.{name}")
    return place


def _registry(what: str, entries: Iterable[Entry[T]], problems: list[Problem]) -> Registry[T]:
    known: dict[str, Entry[T]] = {}
    for entry in entries:
        name = entry.value.id
        # A missing id is already reported; without one, nothing can refer to the entry.
        if not name:
            continue
        # The first entry counts, and the second is an error. It must not replace the first: other problems would be
        # reported at the wrong place.
        if name in known:
            first = known[name].place
            key = "name" if what == "prompt blocks" else "id"
            where = f"{first.document.path}:{first.at(key).document.line_of(first.at(key).steps)}"
            text = f"{quoted(name)} is taken: the {what} have it already at {where}"
            problems.append(entry.place.at(key).error(text, key=name))
        else:
            known[name] = entry
    return Registry(known)


def _check_folders(blocks: Iterable[Entry[PromptBlock]], problems: list[Problem]) -> None:
    """Check that folder and name of a block agree with its owner. Source: TN-53, PC1-D-62, R-6."""
    for block in blocks:
        owner, name = block.value.owner, block.value.id
        folder = PurePosixPath(block.value.path).relative_to(BLOCKS_FOLDER).parts[:-1]
        if owner and folder and folder[0] != owner:
            text = f"{quoted(owner)} does not own the folder {folder[0]}; move the file or name the folder's owner"
            problems.append(block.place.at("owner").error(text, key=owner))
        if name in PLATFORM_BLOCKS and owner and owner != PLATFORM_OWNER:
            text = f"{quoted(name)} belongs to the platform; its owner must be {quoted(PLATFORM_OWNER)}"
            problems.append(block.place.at("owner").error(text, key=owner))
