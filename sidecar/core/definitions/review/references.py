"""The four checks that a change of a configuration repository must pass before it is merged.

(a) All definitions load. (b) Each `sub_agents` entry can be served. (c) No entry names a definition that is being
removed. (d) No definition has a major change under the same id, and none has a minor change without an override. The
checks are pure functions from two states to findings. Source: PF1-D-55 to PF1-D-59, PF1-FR-11, PF1-FR-12, TN-66 to
TN-69, TN-90, TN-92.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Final

from sidecar.core.definitions.cards.card import AgentDefinition
from sidecar.core.definitions.cross_checks import slots_of
from sidecar.core.definitions.files.documents import Document, Entry, SourceLocation
from sidecar.core.definitions.files.problems import Problem, quoted
from sidecar.core.definitions.files.registries import Registries, read_registries
from sidecar.core.definitions.resolve import load_documents
from sidecar.core.definitions.review.overrides import Annotation
from sidecar.core.identifiers import DefinitionId, Slot


class ComparisonRefused(Exception):
    """The two versions cannot be compared; the text has the remedy."""


@unique
class Check(StrEnum):
    """The checks by letter; see the top of the module. Source: PF1-D-55 to PF1-D-58."""

    LOADS = "a"
    RESOLVES = "b"
    UNREFERENCED = "c"
    IN_PLACE = "d"


@unique
class Severity(StrEnum):
    """The effect of a finding on the merge, in the words of GitHub's annotations."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of one check.

    Attributes:
        weight: its effect on the merge.
        file: relative to the configuration root.
        line: of the entry in the head, counted from 1; None: the whole file.
        field: path inside the file, entries by id.
        message: the problem and the remedy.
        details: the exact changes; may be empty.
    """

    check: Check
    weight: Severity
    file: str
    line: int | None
    field: str
    message: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    """One version of the configuration, readable even if it does not load.

    Attributes:
        problems: the reasons why it does not load; empty for a base, which need not load.
        annotations: `# minor-change:` comments of each file, by path.
    """

    registries: Registries
    problems: tuple[Problem, ...] = ()
    annotations: Mapping[str, Sequence[Annotation]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The input of the checks.

    Attributes:
        base: the version before the change.
        trailers: values of the override trailer of the commits between base and head.
        rolled_back: ids whose definitions are all in `rollback`.
        under: the configuration's folder inside the repository, with a slash at the end; empty: the root.
        told: lines about the comparison itself, for people.
        flags_retired: ids whose flags an operator has retired, in every definition that is not in `rollback`.
    """

    base: Side
    head: Side
    trailers: tuple[str, ...] = ()
    rolled_back: frozenset[DefinitionId] = frozenset()
    under: str = ""
    told: tuple[str, ...] = ()
    flags_retired: frozenset[DefinitionId] = frozenset()


@dataclass(frozen=True, slots=True)
class BaseSelection:
    """The base of the comparison; with neither field, the checks use the head alone.

    Attributes:
        ref: a branch, tag or commit of the repository that contains the head.
        folder: another folder that contains a configuration.
    """

    ref: str | None = None
    folder: str | None = None


def base_side(
    documents: Sequence[Document], unread: Sequence[str], annotations: Mapping[str, Sequence[Annotation]]
) -> Side:
    """Return the version before the change. Its problems are not reported: the reviewed change did not cause them.

    `unread`: the paths of files that could not be parsed.
    """
    # The problems are collected in a list that is dropped: even a base that does not load can be compared entry by
    # entry.
    return Side(read_registries(documents, unread, []), (), annotations)


def head_side(
    documents: Sequence[Document],
    unread: Sequence[str],
    earlier: Sequence[Problem],
    annotations: Mapping[str, Sequence[Annotation]],
) -> Side:
    """Return the proposed version, with all problems that prevent it from loading. Arguments as of `load_documents`."""
    loaded = load_documents(documents, unread, earlier)
    return Side(read_registries(documents, unread, []), loaded.errors, annotations)


def finding_at(
    place: SourceLocation, check: Check, weight: Severity, message: str, details: tuple[str, ...] = ()
) -> Finding:
    """Return a finding at a place of the head."""
    document = place.document
    return Finding(check, weight, document.path, document.line_of(place.steps), place.label, message, details)


def loads(head: Side) -> Iterator[Finding]:
    """Check (a): the whole configuration loads, so every active definition does.

    Check (b) reports `sub_agents` entries with unknown names, so that each check can be switched off separately.
    """
    # Check (b) reports these. If (b) is switched off, they must not appear under (a) instead.
    dangling = frozenset(place.label for place, _ in _dangling(head.registries))
    for problem in head.problems:
        if problem.field not in dangling:
            message = problem.text if problem.suggestion is None else f"{problem.text}; near: {problem.suggestion}"
            yield Finding(Check.LOADS, Severity.ERROR, problem.file, problem.line, problem.field, message)


def resolves(head: Side, rolled_back: frozenset[DefinitionId]) -> Iterator[Finding]:
    """Check (b): each `sub_agents` entry names a slot with a definition that is not in `rollback`.

    A deprecated definition counts like one in `rollback`: its entry exists, but it serves no user. The list of a
    deprecated orchestrator, which is kept for replay only, may name slots without a served definition.
    """
    for place, slot in _dangling(head.registries):
        text = f"{quoted(slot)} names no definition; add one that fills it, or take it off the list"
        yield finding_at(place, Check.RESOLVES, Severity.ERROR, text)
    slots = slots_of(head.registries)
    for entry in _active(head.registries):
        for index, slot in enumerate(entry.value.sub_agents):
            fillers = slots.get(slot, ())
            # A slot without any definition is reported above, as dangling.
            if fillers and not any(_is_served(name, head.registries, rolled_back) for name in fillers):
                states = ", ".join(f"{quoted(name)} {_why_not(name, head.registries)}" for name in fillers)
                text = f"{quoted(slot)} resolves to nothing that can be served: {states}; take it off the list"
                yield finding_at(entry.place.at("sub_agents", index), Check.RESOLVES, Severity.ERROR, text)


def unreferenced(base: Side, head: Side) -> Iterator[Finding]:
    """Check (c): no other active orchestrator lists a definition that this change removes or deprecates."""
    slots = slots_of(head.registries)
    for name, before in base.registries.agents.entries.items():
        now = head.registries.agents.get(name)
        # It was deprecated before this change, so this change did not take it away.
        if before.value.deprecated and now is not None:
            continue
        # The entry is still served, so nothing was taken away.
        if now is not None and not now.deprecated:
            continue
        slot = before.value.slot
        # Another definition fills the slot, so orchestrators may continue to list it.
        # Without the states of the rollout: this check is about the change alone, and check (b) knows the states.
        if any(_is_served(other, head.registries, frozenset()) for other in slots.get(slot, ())):
            continue
        yield from _named_by(name, slot, "removed" if now is None else "deprecated", head)


def _named_by(name: str, slot: Slot, done: str, head: Side) -> Iterator[Finding]:
    for entry in _active(head.registries):
        # An entry that lists its own slot does not keep itself alive.
        if entry.value.id == name:
            continue
        for index, listed in enumerate(entry.value.sub_agents):
            if listed == slot:
                text = (
                    f"agent {quoted(name)} is {done}, but the orchestrator {quoted(entry.value.id)} still names "
                    f"{quoted(slot)} in sub_agents; take it off that list in this change or before (FR-11)"
                )
                yield finding_at(entry.place.at("sub_agents", index), Check.UNREFERENCED, Severity.ERROR, text)


def _active(registries: Registries) -> Iterator[Entry[AgentDefinition]]:
    return (entry for entry in registries.agents.entries.values() if not entry.value.deprecated)


def _dangling(registries: Registries) -> Iterator[tuple[SourceLocation, Slot]]:
    slots = slots_of(registries)
    for entry in registries.agents.entries.values():
        for index, slot in enumerate(entry.value.sub_agents):
            # An empty text is a wrong item, which is reported where it was read.
            if slot and slot not in slots:
                yield entry.place.at("sub_agents", index), slot


def _is_served(name: str, registries: Registries, rolled_back: frozenset[DefinitionId]) -> bool:
    return name not in rolled_back and not registries.agents[name].deprecated


def _why_not(name: str, registries: Registries) -> str:
    return "is deprecated" if registries.agents[name].deprecated else "is in rollback"


MAJOR_MESSAGE: Final = (
    "Major Agent Definition changes require a new `agent_id`; in-place mutation of promoted Agent Definitions is "
    "prohibited (FR-12)."
)
"""Source: PF1-D-59, word for word."""
