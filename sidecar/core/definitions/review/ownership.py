"""The reviewers of a change: the owners of blocks, as rules of a CODEOWNERS file. Source: PC1-D-48, PC1-D-49."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from sidecar.core.definitions.cards.card import PromptBlock
from sidecar.core.definitions.files.names import PLATFORM_OWNER
from sidecar.core.definitions.files.registries import BLOCKS_FOLDER, CONFIG_FILE

OWNER_SIGN: Final = "{owner}"
WORKFLOW: Final = "/.github/workflows/subagent-validate-refs.yml"
"""The workflow that checks each change; relative to the repository. Source: PF1-D-52."""
CHECKS_FILE: Final = "subagent-validate-refs.toml"
"""Beside `agent_config.yaml`; switches single checks off. Source: PF1-D-69."""


def reviewers_rules(blocks: Iterable[PromptBlock], team: str, under: str) -> tuple[str, ...]:
    """Return the lines of a CODEOWNERS file. If several lines match a path, the last one applies.

    The platform owns `agent_config.yaml`, and with it every `sub_agents` list (PF1-D-62), the workflow and settings of
    the checks, and blocks outside a folder that name no other owner. The folder of an owner belongs to that owner,
    including future files.

    Args:
        blocks: all blocks.
        team: the name of an owner's team with the placeholder `{owner}`, such as `@example/{owner}-team`.
        under: the configuration's folder inside the repository; empty: the root of the repository.
    """
    root = PurePosixPath("/") / under.strip("/")
    platform = team.replace(OWNER_SIGN, PLATFORM_OWNER)
    folders: set[str] = set()
    alone: list[tuple[str, str]] = []
    for block in blocks:
        parts = PurePosixPath(block.path).relative_to(BLOCKS_FOLDER).parts
        # A file in a folder is covered by the rule of the folder; `registries` has checked that its owner is the same.
        if len(parts) > 1:
            folders.add(block.owner)
        else:
            alone.append((block.path, block.owner))
    return (
        f"{WORKFLOW} {platform}",
        f"{root / CHECKS_FILE} {platform}",
        f"{root / CONFIG_FILE} {platform}",
        f"{root / BLOCKS_FOLDER}/ {platform}",
        *(f"{root / BLOCKS_FOLDER / owner}/ {team.replace(OWNER_SIGN, owner)}" for owner in sorted(folders)),
        *(f"{root / path} {team.replace(OWNER_SIGN, owner)}" for path, owner in sorted(alone)),
    )
