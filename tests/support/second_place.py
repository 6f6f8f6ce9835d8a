"""A second place in memory, and a log that was signed there, for tests of verifying, checkpointing and retention."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sidecar.adapters.checkpoints import Ed25519Judge, Ed25519Signer
from sidecar.adapters.record_memory import MemoryJournal
from sidecar.core.identifiers import InstanceId
from sidecar.core.verifying.checkpoint_lines import (
    NO_LINE,
    Statement,
    furthest,
    furthest_audit,
    line_from,
    line_hash,
    line_text,
    signed_line,
)
from sidecar.core.verifying.findings import Finding
from sidecar.operations.record.checkpoint_ports import CheckpointHead, CheckpointStoreUnavailable
from sidecar.operations.record.checkpoints import Checkpointing
from sidecar.operations.record.retention import Retention, RetentionRules
from sidecar.operations.record.verify_log import CheckpointSource, LogVerification
from tests.support.record_builders import BEGIN, a_whole_turn
from tests.support.recording.translation import MemoryStoreOfRecords

INTERVAL = timedelta(seconds=10)
RULES = RetentionRules(audit=timedelta(days=90), frames=timedelta(days=14))


@lru_cache
def a_key(name: str) -> Ed25519PrivateKey:
    """Return the key of a name; always the same in one run."""
    return Ed25519PrivateKey.generate()


def a_signer(name: str = "ours") -> Ed25519Signer:
    """Return who signs with the key of a name."""
    return Ed25519Signer(a_key(name))


@dataclass
class PlaceInMemory:
    """Keeps lines; is away while `away`, and says nothing while `hangs` is not set. It looks back to `since`."""

    lines: list[bytes] = field(default_factory=list)
    signer: Ed25519Signer = field(default_factory=a_signer)
    away: bool = False
    hangs: asyncio.Event | None = None
    since: date | None = None

    async def standing(self) -> CheckpointHead:
        """Return the furthest statements."""
        self._refuse_if_away()
        lines = [line for text in self.lines if (line := line_from(text)) is not None]
        return CheckpointHead(furthest(lines), furthest_audit(lines), self.since)

    async def append(self, statements: Sequence[Statement]) -> None:
        """Append signed lines."""
        self._refuse_if_away()
        if self.hangs is not None:
            await self.hangs.wait()
        for statement in statements:
            previous = line_hash(self.lines[-1].rstrip(b"\n")) if self.lines else NO_LINE
            line = signed_line(statement, len(self.lines) + 1, previous, self.signer)
            self.lines.append(line_text(line) + b"\n")

    def _refuse_if_away(self) -> None:
        if self.away:
            raise CheckpointStoreUnavailable("the place is away")


@dataclass
class SettableClock:
    """Says what it is told to say."""

    time: datetime = BEGIN
    seconds: float = 0.0

    def now(self) -> datetime:
        """Return the wall clock's time."""
        return self.time

    def monotonic(self) -> float:
        """Return the loop's time."""
        return self.seconds


@dataclass
class Anomalies:
    """The only thing that is reported here."""

    kinds: list[str] = field(default_factory=list)

    def anomaly(self, kind: str, detail: str) -> None:
        """Keep the kind."""
        self.kinds.append(kind)


@dataclass
class SignedLog:
    """A record in memory with its second place, and everything that works on the two."""

    store: MemoryStoreOfRecords = field(default_factory=MemoryStoreOfRecords)
    place: PlaceInMemory = field(default_factory=PlaceInMemory)
    clock: SettableClock = field(default_factory=SettableClock)
    anomalies: Anomalies = field(default_factory=Anomalies)
    given: MemoryJournal | None = None

    @property
    def journal(self) -> MemoryJournal:
        """What is signed, shortened and verified: of the store, unless another one was given."""
        return self.given or self.store.journal

    def go_on_as(self, instance: str) -> None:
        """Let another instance go on with the record."""
        self.store = MemoryStoreOfRecords(self.store.contents, InstanceId(instance))

    def checkpointing(self) -> Checkpointing:
        """Return what signs the running roots."""
        where = (self.journal, self.journal.instance, self.place)
        return Checkpointing(*where, INTERVAL, self.clock, self.anomalies)  # type: ignore[arg-type]  # one method of it

    def retention(self) -> Retention:
        """Return what removes what is older than 90 days, and frames older than 14."""
        with_whom = (self.place.signer, self.place, self.clock)
        return Retention(self.journal, RULES, *with_whom, self.anomalies)  # type: ignore[arg-type]  # one method of it

    async def turns(self, first: int, last: int, days: float = 0) -> None:
        """Put whole turns with two children each on record, a checkpoint after each; the first one `days` on."""
        checkpointing = self.checkpointing()
        for number in range(first, last + 1):
            await self.store.append(a_whole_turn(f"turn-{number}", ("shop", "rewards"), at=days * 86_400 + 10 * number))
            await checkpointing.look()

    async def findings(self, keys: Sequence[str] = ("ours",), *, with_place: bool = True) -> list[Finding]:
        """Verify the whole."""
        return (await self.verified(keys, with_place=with_place))[0]

    async def verified(
        self, keys: Sequence[str] = ("ours",), *, with_place: bool = True
    ) -> tuple[list[Finding], LogVerification]:
        """Verify the whole; also return what did it."""
        judge = Ed25519Judge([a_key(name).public_key() for name in keys])
        place = CheckpointSource([lambda: list(self.place.lines)], judge) if with_place else None
        verification = LogVerification(self.journal, place, lambda looked: None)
        return [finding async for finding in verification.findings()], verification
