"""Starts what is measured: sidecars of this tree, those of another revision, and two bare servers beside them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from scripts.benchmark.bare_server import write_answers
from scripts.benchmark.clients import SidecarClient, turn_request
from scripts.benchmark.collector import collector
from scripts.benchmark.definitions import INSTANT, write_definitions
from scripts.benchmark.operating import OperatorKey, operators_socket, ramped
from scripts.benchmark.plan import Plan
from scripts.benchmark.postgres import Postgres
from scripts.benchmark.processes import running
from scripts.benchmark.revisions import Revision
from scripts.benchmark.sidecar_server import SQLITE as SQLITE_RECORD
from scripts.benchmark.sidecar_server import secret_file
from scripts.benchmark.targets import IN_SQLITE, WITH_ROLLOUTS, Bare, Measured, Sidecars


@dataclass(frozen=True, slots=True)
class Started:
    """Everything that listens.

    Attributes:
        other: the sidecars of another revision; None: there is none to compare with.
    """

    own: Sidecars
    other: Sidecars | None
    bare: Bare

    async def end_all(self) -> None:
        """End every turn that was bound."""
        for sidecars in (self.own, self.other):
            if sidecars is not None:
                await sidecars.end_all()


@asynccontextmanager
async def servers(plan: Plan, databases: Postgres | None) -> AsyncIterator[Started]:
    """Start the sidecars, take down what one answers, and start two bare servers that answer the same.

    `databases` is None where nothing is kept in PostgreSQL.
    """
    async with AsyncExitStack() as started:
        folder = Path(started.enter_context(TemporaryDirectory(prefix="bench-")))
        write_definitions(folder / "definitions")
        start = _Start(plan, databases, started)
        own = await start.sidecars(folder / "own", None)
        other = None if plan.against is None else await start.sidecars(folder / "other", plan.against)
        await _write_answers(folder, own.sidecar.client, (own.policed or own.sidecar).client)
        answers = ["--answers", str(folder), *plan.on_core]
        bare = running("bare_server", folder / "bare.sock", answers)
        twin = running("bare_server", folder / "twin.sock", [*answers, "--delay", str(plan.twin_delay)])
        bares = Bare(await started.enter_async_context(bare), await started.enter_async_context(twin))
        yield Started(own, other, bares)


@dataclass(frozen=True, slots=True)
class _Start:
    plan: Plan
    databases: Postgres | None
    started: AsyncExitStack

    async def sidecars(self, folder: Path, revision: Revision | None) -> Sidecars:
        """Start every sidecar of a revision that a row needs; None: of this tree."""
        plan = self.plan
        _make(folder)

        async def sidecar(name: str, *arguments: str) -> Measured:
            said = [*plan.on_core, *arguments]
            return await self.started.enter_async_context(_sidecar(folder / name, said, revision))

        profiled = plan.profile is not None and revision is None
        first = await sidecar("sidecar", *(("--profile", str(plan.profile)) if profiled else ()))
        unobserved = observed = policed = sqlite = in_postgres = None
        if plan.asks(frozenset({7})):
            endpoint = await self.started.enter_async_context(collector())
            unobserved, observed = await sidecar("unobserved"), await sidecar("observed", "--otlp", endpoint)
        if plan.asks(WITH_ROLLOUTS):
            key = OperatorKey(folder / "operator.pub")
            policed = await sidecar("policed", "--operator-key", str(key.file), "--policies")
            await ramped(operators_socket(folder / "policed" / "any"), key)
        if plan.databases and plan.asks(IN_SQLITE):
            sqlite = await sidecar("sqlite", "--record", SQLITE_RECORD)
        if self.databases is not None and plan.asks(frozenset({1, 10})):
            in_postgres = await sidecar("postgres", "--record", await self.databases.database(folder.name))
        return Sidecars(
            sidecar=first,
            unobserved=unobserved,
            observed=observed,
            policed=policed,
            sqlite=sqlite,
            postgres=in_postgres,
        )


def _make(folder: Path) -> None:
    folder.mkdir(mode=0o700)


@asynccontextmanager
async def _sidecar(folder: Path, arguments: Sequence[str], revision: Revision | None) -> AsyncIterator[Measured]:
    """Start a sidecar in a private folder of its own."""
    _make(folder)
    socket = folder / "sidecar.sock"
    said = ["--definitions", str(folder.parent.parent / "definitions"), *arguments]
    async with running("sidecar_server", socket, said, revision) as server:
        secret = secret_file(socket).read_text(encoding="utf-8").strip()
        yield Measured(server, SidecarClient(server.channel, secret), folder)


async def _write_answers(folder: Path, dispatching: SidecarClient, binding: SidecarClient) -> None:
    (job,) = await dispatching.prepared(INSTANT, 1, 1)
    whole, bound = await dispatching.frames(job), await binding.bound(turn_request(INSTANT))
    await dispatching.end_all()
    await binding.end_all()
    write_answers(folder, whole, bound)
