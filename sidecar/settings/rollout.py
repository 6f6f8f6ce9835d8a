"""The `[rollout]` section: how sub-agents reach users."""

from pathlib import Path

from pydantic import Field

from sidecar.settings.values import Section


class RolloutSettings(Section):
    """How sub-agents reach users: promoted and ramped by operators, or by their flags alone."""

    enabled: bool = Field(
        False,
        description="Definitions are served as operators promote and ramp them. Off: an entry with flags follows "
        "its two flags, and there is nothing to promote.",
    )
    kills_file: Path = Field(
        Path("/var/lib/sidecar/kills.jsonl"),
        description="Kills and ramp-downs that were made here, which need neither database nor flag backend.",
    )
