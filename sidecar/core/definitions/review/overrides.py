"""Overrides: an author's written reason for a minor change made in place. Source: PF1-AC-9b, TN-67.

An override has one of two forms. The first is a comment `# minor-change: <reason>` at the changed place, added by the
same change; an older comment overrides nothing. The second is a trailer of a commit of the change:
`Subagent-Minor-Change: <what> <reason>`.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sidecar.core.definitions.files.registries import CONFIG_FILE, Registries

COMMENT: Final = "minor-change:"
TRAILER: Final = "Subagent-Minor-Change"


@dataclass(frozen=True, slots=True)
class Annotation:
    """A `# minor-change:` comment.

    Attributes:
        anchor: line, counted from 1, of the content that the comment belongs to.
        reason: what follows the colon; never empty.
    """

    anchor: int
    reason: str


def model_subject(name: str) -> str:
    """Return the name of a `models` entry in a trailer."""
    return f"model:{name}"


def tool_subject(name: str) -> str:
    """Return the name of a `tools` entry in a trailer."""
    return f"tool:{name}"


def block_subject(name: str) -> str:
    """Return the name of a prompt block in a trailer."""
    return f"block:{name}"


def override_reasons(
    registries: Registries, annotations: Mapping[str, Sequence[Annotation]]
) -> Mapping[str, frozenset[str]]:
    """Return the reasons in comments by the subject at their place: an id, `model:…`, `tool:…` or `block:…`.

    Args:
        registries: of the version with the comments.
        annotations: comments of each file, by path.
    """
    found: dict[str, frozenset[str]] = {}
    borders = _boundaries(registries)
    lines = [line for line, _ in borders]
    for one in annotations.get(CONFIG_FILE, ()):
        # The entry with the last line that is not after the comment's anchor. Section headings are borders without a
        # name, so a comment between two sections belongs to no entry.
        at = bisect_right(lines, one.anchor) - 1
        if at >= 0 and borders[at][1]:
            found[borders[at][1]] = found.get(borders[at][1], frozenset()) | {one.reason}
    for name, entry in registries.blocks.entries.items():
        reasons = frozenset(one.reason for one in annotations.get(entry.value.path, ()))
        # A file of a block has one entry, so every comment in it belongs to the block.
        if reasons:
            found[block_subject(name)] = reasons
    return found


def reasons_of_trailers(trailers: Iterable[str]) -> Mapping[str, frozenset[str]]:
    """Return the reasons in commit trailers by their subject. A value without a reason is ignored."""
    found: dict[str, frozenset[str]] = {}
    for value in trailers:
        subject, _, reason = value.strip().partition(" ")
        # Without a reason, a reviewer could not judge the override.
        if reason.strip():
            found[subject] = found.get(subject, frozenset()) | {reason.strip()}
    return found


def _boundaries(registries: Registries) -> list[tuple[int, str]]:
    """Return the first line of each section, with an empty name, and of each entry, in order of line."""
    config = registries.config
    if config is None:
        return []
    borders = [(line, "") for steps, line in config.document.lines.items() if len(steps) == 1]
    for entries, name_of in (
        (registries.agents.entries, str),
        (registries.models.entries, model_subject),
        (registries.tools.entries, tool_subject),
    ):
        for name, entry in entries.items():
            line = entry.place.document.line_of(entry.place.steps)
            if line is not None:
                borders.append((line, name_of(name)))
    # On the same line, the empty name of a section sorts before the name of an entry, so the entry is found.
    return sorted(borders)
