"""What the rollout reports, kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sidecar.core.rollout.definition_changes import MajorChange, PendingPromotion
from sidecar.core.rollout.events import TransitionEvent


@dataclass
class ToldRecorder:
    """A recorder that keeps kinds and names."""

    anomalies: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def transitioned(self, event: TransitionEvent) -> None:
        """Keep the event's id."""
        self.said.append(event.event_id)

    def gate_failed(self, definition_id: str, gate: str) -> None:
        """Keep the gate."""
        self.said.append(f"{definition_id} {gate}")

    def definitions_seen(self, version: str, waiting: Sequence[PendingPromotion], major: Sequence[MajorChange]) -> None:
        """Keep who waits."""
        self.said.extend(f"{each.definition_id} waits" for each in waiting)
        self.said.extend(f"{each.definition_id} changed in a major way" for each in major)

    def known(self, definition_id: str) -> None:
        """Keep the definition."""
        self.said.append(f"{definition_id} known")

    def kill_switch_fired(self, definition_id: str) -> None:
        """Keep the definition."""
        self.said.append(f"{definition_id} killed")

    def rolled_back(self, definition_id: str, seconds: float) -> None:
        """Keep the definition."""
        self.said.append(f"{definition_id} rolled back in {seconds}")

    def anomaly(self, kind: str, detail: str) -> None:
        """Keep the kind."""
        self.anomalies.append(kind)
