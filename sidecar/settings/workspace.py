"""The `[workspace]` section."""

from pathlib import Path

from pydantic import Field

from sidecar.settings.values import Section


class WorkspaceSettings(Section):
    """Reports on the work of sub-agents, one Markdown file each; see docs/delegation.md."""

    directory: Path | None = Field(
        None,
        description="Where reports go, in a folder for each turn; the directory must exist. Unset: none are written.",
    )
