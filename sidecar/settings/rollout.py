"""The `[rollout]` section: how operators bring sub-agents to users step by step."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sidecar.settings.section import Section, setting


class RolloutSettings(Section):
    """Rollout of sub-agents by operators; see docs/lifecycle.md."""

    tombstone_file: Path | None = setting(
        None,
        description="File with the kills and ramp-downs of this sidecar, which take effect without database and "
        "flag backend; "
        "one file per sidecar. Unset: kills.jsonl beside the record's file, or in /var/lib/sidecar.",
    )
    auto_promote_unflagged: bool = setting(
        False,
        description="Whether an entry that names no flag and is alone in a slot where nothing was promoted yet serves "
        "every user at once, without a gate. Off: it starts at dev, and serves no user until it names a flag and is "
        "promoted. A definition that is recorded as serving continues to serve. For tests, and for the first start on "
        "a record that does not know the entries that serve already.",
    )
    decommission_days: int = setting(
        90,
        ge=1,
        le=3650,
        description="Days from the begin of a decommission until nothing of the sub-agent may be left. A change does "
        "not move the end of a decommission that has already begun.",
    )
    max_cohorts: int = setting(
        64,
        ge=1,
        le=100_000,
        description="Distinct cohorts that turns may be bound in within a day; beyond it there is a warning. Each "
        "further ramp between 0 % and 100 % can double their number.",
    )

    @classmethod
    def _prepared(cls, configured: Mapping[str, Any]) -> Mapping[str, Any]:
        """Remove the former setting `enabled` from the table; replicas of two releases may share a file.

        Raises:
            ValueError: the value of `enabled` is not true.
        """
        if "enabled" not in configured:
            return configured
        if str(configured["enabled"]).lower() not in {"true", "1"}:
            raise ValueError(
                "rollout.enabled can no longer be off: an entry that names a flag serves no user until it is promoted "
                "and ramped. Take the setting away, and read `Updating an installation without rollouts` in "
                "docs/lifecycle.md before you start"
            )
        # `true` is what every release does now, so it may stay in a file.
        return {name: value for name, value in configured.items() if name != "enabled"}
