"""A record that is opened as a sidecar opens it, and a turn that a sidecar has left in one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from scripts.benchmark.clients import DISPATCHES_PER_TURN, job, turn_request
from scripts.benchmark.definitions import INSTANT
from scripts.benchmark.growth.processes import Place, weighed
from scripts.benchmark.sidecar_server import Varied, settings
from sidecar.adapters.system import OwnedTasks, SystemClock, SystemIds
from sidecar.composition.record.open_record import OpenRecord, RecordDependencies, opened_record
from sidecar.core.identifiers import TurnId
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor


async def original(place: Place) -> tuple[TurnId, Path]:
    """Run one turn with four dispatches in a sidecar; return its id, and the SQLite record that it is in."""
    async with weighed(place, "original") as sidecar:
        request = turn_request(INSTANT)
        bound = await sidecar.client.bound(request)
        for _ in range(DISPATCHES_PER_TURN):
            await sidecar.client.dispatch(job(bound, INSTANT, 1))
        await sidecar.client.end_all()
        return TurnId(request.turn_id), sidecar.folder / "record.sqlite"


@asynccontextmanager
async def opened_store(folder: Path, record: str) -> AsyncIterator[OpenRecord]:
    """Open a record: `sqlite` in `folder`, or the PostgreSQL of an address.

    Raises:
        LookupError: something went wrong in the background meanwhile.
    """
    strays: list[str] = []
    tasks = OwnedTasks(lambda name, error: strays.append(f"{name}: {error!r}"))
    said = settings(folder / "sidecar.sock", folder, Varied(record=record)).record
    recorder = MeasuringRecorder(Metrics(), error_emit=False)
    async with opened_record(
        said, RecordDependencies(SystemClock(), SystemIds(), tasks, recorder, Redactor())
    ) as opened:
        yield opened
        await tasks.close()
    if strays:
        raise LookupError(f"the record did not keep everything: {strays}")
