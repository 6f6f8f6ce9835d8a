"""How much is measured, and of what."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.benchmark.revisions import Revision
from scripts.benchmark.targets import ROWS


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        rounds: how often each target has its turn.
        share: of the usual number of requests in a turn; at least one request for each in flight is made.
        server_cpu, client_cpu: cores to stay on; None: wherever the system likes.
        warms_up: whether each target is asked once before the rounds; without, its numbers mean nothing.
        twin_delay: seconds by which the second bare server is slower; 0 but in tests.
        databases: whether the record is also measured in SQLite and PostgreSQL.
        against: another revision, whose sidecars have their turns beside those of this tree; None: only this tree.
        rows: of the table in DESIGN section 14; what none of them needs is not started.
        profile: where the sidecar writes its profile; None: it takes none, and only then its numbers mean anything.
    """

    rounds: int
    share: float = 1.0
    server_cpu: int | None = None
    client_cpu: int | None = None
    warms_up: bool = True
    twin_delay: float = 0.0
    profile: Path | None = None
    databases: bool = True
    against: Revision | None = None
    rows: frozenset[int] = ROWS

    def asks(self, rows: frozenset[int]) -> bool:
        """Say whether one of these rows is to be measured."""
        return bool(self.rows & rows)

    @property
    def on_core(self) -> Sequence[str]:
        """What keeps a server on its core."""
        return () if self.server_cpu is None else ("--cpu", str(self.server_cpu))

    def requests(self, usual: int, in_flight: int) -> int:
        """Return how many requests make a turn."""
        return max(in_flight, round(usual * self.share))
