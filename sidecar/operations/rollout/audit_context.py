"""Who asks for a step, and in which moment, as the audit has it. Source: PF1-FR-10, PF1 5.7."""

from dataclasses import dataclass
from datetime import datetime

from sidecar.core.rollout.step import By
from sidecar.operations.rollout.requests import Asked


@dataclass(frozen=True, slots=True)
class Surrounding:
    """What the audit says of the moment: version of the configuration, flags that are on."""

    definition_version: str
    active_flags: tuple[str, ...]


def by_of(asked: Asked, actor: str, at: datetime, surrounding: Surrounding) -> By:
    """Return who asks for a step, when and why, and what the audit says of the moment."""
    return By(
        actor=actor,
        actor_key=asked.actor_key,
        actor_role=asked.actor_role,
        reason=asked.reason,
        request_id=asked.request_id,
        at=at,
        definition_version=surrounding.definition_version,
        active_flags=surrounding.active_flags,
    )
