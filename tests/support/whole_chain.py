"""Everything at once, each part real: definitions in a folder, data service, sub-agents' host, sidecar, sockets.

    async with running_chain() as chain:
        chain.use("shop", asks("search_offers", query="coffee"))
        bound = await chain.bind()
        result = await chain.dispatch(bound, "ask_shop")

Only what the sub-agents do is scripted, and flags are set by the test.
"""

import asyncio
import itertools
import logging
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from examples.ccs.server import ReferenceCcs
from examples.http_serving import serving
from sidecar.adapters.flags_memory import MemoryFlags
from sidecar.composition.parts import Overrides
from sidecar.composition.running import Sidecar, running_sidecar
from sidecar.observability import event_names
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.protocols import FlagReport
from sidecar.policy.specs import FlagBackendSpec
from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from sidecar.settings import Settings
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc
from subagents_client.runner import Answer, DataUnavailable, Run, RunnerHost, ToolData
from tests.support.plain_http import plain_client
from tests.support.reference_ccs import RunningCcs
from tests.support.requests import a_bind, some_calls

EXAMPLE: Final = Path(__file__).parents[2] / "examples" / "config"
CONFIG: Final = "agent_config.yaml"
CONFIGURED_ENDPOINT: Final = "http://127.0.0.1:8480/v1/enrich"
FLAGGED: Final = re.compile(r"^    enabled_via_flag: .*\n", re.MULTILINE)
Edits = Mapping[str, str]
"""Old text to new text of `agent_config.yaml`; each old text must be there."""

Changes = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes the right envelope and returns the one to send."""

Doing = Callable[[Run, "Chain"], Any]
"""What a sub-agent does: an async function that returns its answer."""


class WatchedFlags(MemoryFlags):
    """Flags that say when the sidecar has taken them in, and how often they were fetched.

    Attributes:
        fetches: how often the sidecar asked.
        asking: set while a fetch is under way.
    """

    def __init__(self, *on: str) -> None:
        super().__init__(on)
        self.fetches = 0
        self.asking = asyncio.Event()
        self._taken = asyncio.Event()

    @override
    async def fetch(self) -> FlagReport:
        self.fetches += 1
        self.asking.set()
        return await super().fetch()

    @override
    async def changed(self) -> None:
        # The sidecar waits for a hint only after it has published what it fetched.
        self.asking.clear()
        if self._fetched == self._revision:
            self._taken.set()
        await super().changed()

    async def switch(self, name: str, *, on: bool) -> None:
        """Switch a flag and wait until the sidecar has published it."""
        self._taken.clear()
        self.set(name, on=on)
        await self._taken.wait()


@dataclass
class EditableCcs(ReferenceCcs):
    """The reference data service, whose envelopes a test may also change on their way out.

    Attributes:
        change: applied to every envelope; None: they go out as they are.
    """

    change: Changes | None = None

    @override
    async def enrich(self, http: Request) -> Response:
        reply = await super().enrich(http)
        if self.change is None:
            return reply
        return Response(
            msgspec.json.encode(self.change(msgspec.json.decode(reply.body))), media_type="application/json"
        )


@dataclass(frozen=True, slots=True)
class _FlagPlugin:
    flags: WatchedFlags

    @hookimpl
    def sidecar_flag_backends(self) -> list[FlagBackendSpec]:
        """Offer the test's flags."""
        made = FlagBackendSpec(
            name="watched", contract="flag-backend/1", summary="set by a test", factory=lambda settings: self.flags
        )
        return [made]


class _Heard(logging.Handler):
    """Keeps the names of logged events, and wakes who waits for one."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[logging.LogRecord] = []
        self.news = asyncio.Event()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.news.set()

    def of(self, name: str) -> list[logging.LogRecord]:
        """Return the events of that name."""
        return [each for each in self.records if getattr(each, "event", "") == name]

    async def event(self, name: str, after: int) -> None:
        """Wait until an event of that name was logged after the first `after` records."""
        while not any(getattr(each, "event", "") == name for each in self.records[after:]):
            self.news.clear()
            await self.news.wait()


@dataclass(slots=True)
class Chain:
    """The running whole.

    Attributes:
        service: behind `ccs`; give its `change` for envelopes that no fault switch makes.
        runs: what each sub-agent was given, in order.
        received: what each data call gave, in order.
    """

    sidecar: Sidecar
    ccs: RunningCcs
    service: EditableCcs
    flags: WatchedFlags
    folder: Path
    channel: grpc.aio.Channel
    heard: _Heard
    doing: dict[str, Doing]
    runs: list[Run]
    received: list[ToolData | DataUnavailable]
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def stub(self) -> dispatch_pb2_grpc.DispatchServiceStub:
        """The consumer-agent's stub; give it `metadata=chain.metadata`."""
        return dispatch_pb2_grpc.DispatchServiceStub(self.channel)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What a call needs to be let in."""
        return ((BOOT_SECRET_KEY, self.sidecar.boot_secret),)

    def use(self, slot: str, doing: Doing) -> None:
        """Let a sub-agent do something from now on; otherwise it says hello."""
        self.doing[slot] = doing

    def runs_of(self, slot: str) -> list[Run]:
        """Return what one sub-agent was given."""
        return [run for run in self.runs if run.sub_agent_id == slot]

    async def bind(self, **fields: Any) -> pb.BindTurnResponse:
        """Bind a turn; without a `turn_id` a new one."""
        fields.setdefault("turn_id", f"turn-{next(self._numbers)}")
        return await self.stub.BindTurn(a_bind(**fields), metadata=self.metadata, timeout=10)

    async def dispatch(self, bound: pb.BindTurnResponse, *calls: str | pb.ToolCall, **fields: Any) -> pb.DispatchResult:
        """Dispatch calls such as `ask_shop` and return their outcomes."""
        fields.setdefault("dispatch_id", f"dispatch-{next(self._numbers)}")
        request = pb.DispatchRequest(
            surface_token=bound.surface_token,
            binding_digest=bound.surface.binding_digest,
            calls=some_calls(*calls),
            **fields,
        )
        unary = pb.DispatchUnaryRequest(dispatch=request)
        return (await self.stub.DispatchUnary(unary, metadata=self.metadata, timeout=20)).result

    async def end(self, bound: pb.BindTurnResponse, **fields: Any) -> pb.EndTurnResponse:
        """End a turn."""
        request = pb.EndTurnRequest(surface_token=bound.surface_token, **fields)
        return await self.stub.EndTurn(request, metadata=self.metadata, timeout=10)

    async def edit(self, edits: Edits) -> None:
        """Change the definitions on disk and wait until they are in force."""
        heard = len(self.heard.records)
        edit_definitions(self.folder / "config", edits)
        await self.heard.event(event_names.DEFINITIONS_ON_RECORD, heard)

    async def edit_badly(self, edits: Edits) -> None:
        """Change the definitions on disk so that they do not load, and wait until they were refused."""
        heard = len(self.heard.records)
        edit_definitions(self.folder / "config", edits)
        await self.heard.event(event_names.DEFINITIONS_REFUSED, heard)

    async def edit_block(self, path: str, old: str, new: str) -> None:
        """Change a prompt block on disk and wait until it is in force."""
        heard = len(self.heard.records)
        file = self.folder / "config" / "prompts" / "components" / path
        file.write_text(replaced(file.read_text(encoding="utf-8"), {old: new}), encoding="utf-8")
        await self.heard.event(event_names.DEFINITIONS_ON_RECORD, heard)

    async def metrics(self) -> str:
        """Return `/metrics`."""
        async with plain_client() as client:
            return (await client.get(f"http://{self.sidecar.ops_address}/metrics")).text

    async def metric(self, beginning: str) -> float:
        """Return the sum of the samples whose line begins so."""
        lines = (await self.metrics()).splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(beginning))


def replaced(text: str, edits: Edits) -> str:
    """Return the text with each old one replaced once."""
    for old, new in edits.items():
        assert old in text, f"nothing to replace: {old}"
        text = text.replace(old, new, 1)
    return text


def edit_definitions(config: Path, edits: Edits) -> None:
    """Change `agent_config.yaml` below a folder."""
    file = config / CONFIG
    file.write_text(replaced(file.read_text(encoding="utf-8"), edits), encoding="utf-8")


def asks(tool_id: str, **arguments: Any) -> Doing:
    """Call a data-backed tool once and say whether data came."""

    async def doing(run: Run, chain: Chain) -> Answer:
        data = await run.call_tool(tool_id, arguments)
        chain.received.append(data)
        if isinstance(data, DataUnavailable):
            return Answer("No data.", data_unavailable=True)
        return Answer("Here it is, though something may be missing." if data.partial else "Here it is.")

    return doing


async def _hello(run: Run, chain: Chain) -> str:
    return f"hello from {run.sub_agent_id}"


@asynccontextmanager
async def running_chain(
    edits: Edits | None = None,
    flags: WatchedFlags | None = None,
    *,
    unflagged_at_once: bool = True,
    flag_refresh: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    plugins: Sequence[object] = (),
    **dispatch: Any,
) -> AsyncIterator[Chain]:
    """Run the whole of `examples/config`.

    Args:
        edits: of `agent_config.yaml`, before the start; what names a flag was promoted before, and is at 100 %.
        flags: at the start; default: all off.
        unflagged_at_once: an entry that names no flag is served from the start.
        flag_refresh: settings of `[flag_refresh]` other than the usual.
        settings: sections in place of the chain's own, such as those of a plugin.
        plugins: beside the built-in ones.
        dispatch: settings of `[dispatch]` other than the example's.
    """
    flags = flags or WatchedFlags()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wc")))
        service = EditableCcs()
        ccs = RunningCcs(await stack.enter_async_context(serving(service.app(), service.faults.clear)), service)
        _definitions(folder / "config", ccs.endpoint, edits or {})
        heard = stack.enter_context(_hearing())
        doing: dict[str, Doing] = {}
        runs: list[Run] = []
        parts: list[Chain] = []
        host = RunnerHost()

        @host.any_sub_agent()
        async def any_slot(run: Run) -> Any:
            runs.append(run)
            return await doing.get(run.sub_agent_id, _hello)(run, parts[0])

        await stack.enter_async_context(host.serving(f"unix:{folder}/host.sock"))
        chain_settings = _settings(folder, dispatch, flag_refresh or {}, unflagged_at_once=unflagged_at_once)
        said = Settings(**{**chain_settings, **(settings or {})})
        await _served_before_it_was_flagged(folder / "config" / CONFIG, said, plugins)
        sidecar = await stack.enter_async_context(
            running_sidecar(said, replaced=Overrides(plugins=[_FlagPlugin(flags), *plugins], metrics_age=0))
        )
        channel = grpc.aio.insecure_channel(f"unix:{said.server.dispatch_socket}")
        stack.push_async_callback(channel.close)
        parts.append(Chain(sidecar, ccs, service, flags, folder, channel, heard, doing, runs, []))
        yield parts[0]


@contextmanager
def _hearing() -> Iterator[_Heard]:
    heard, root = _Heard(), logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    root.addHandler(heard)
    yield heard
    root.removeHandler(heard)
    root.setLevel(before)


def _definitions(config: Path, endpoint: str, edits: Edits) -> None:
    shutil.copytree(EXAMPLE, config)
    file = config / CONFIG
    file.write_text(file.read_text(encoding="utf-8").replace(CONFIGURED_ENDPOINT, endpoint), encoding="utf-8")
    edit_definitions(config, edits)


@contextmanager
def without_flags(file: Path) -> Iterator[bool]:
    """Take the flags out of `agent_config.yaml` while the context is open; gives whether it has any."""
    flagged = file.read_text(encoding="utf-8")
    unflagged = FLAGGED.sub("", flagged)
    file.write_text(unflagged, encoding="utf-8")
    yield unflagged != flagged
    file.write_text(flagged, encoding="utf-8")


async def _served_before_it_was_flagged(file: Path, settings: Settings, plugins: Sequence[object]) -> None:
    """Put every flagged entry on record as promoted and at 100 %, so that from the start its flags decide.

    An earlier sidecar served it when it named no flag yet; naming one is a minor revision, which inherits.
    """
    with without_flags(file) as flagged:
        if flagged:
            async with running_sidecar(settings, replaced=Overrides(plugins=[_FlagPlugin(WatchedFlags()), *plugins])):
                pass


def _settings(
    folder: Path, dispatch: Mapping[str, Any], flag_refresh: Mapping[str, str], *, unflagged_at_once: bool
) -> dict[str, Any]:
    target = f"unix:{folder}/host.sock"
    return {
        "server": {
            "dispatch_socket": f"{folder}/d/s.sock",
            "agents_socket": f"{folder}/a/s.sock",
            "boot_secret_file": f"{folder}/d/secret",
            "ops_address": "127.0.0.1:0",
        },
        "record": {"sqlite": {"path": f"{folder}/record/record.sqlite"}},
        "rollout": {"auto_promote_unflagged": unflagged_at_once},
        "definitions": {"path": str(folder / "config"), "git_commits": False, "expected": ["travel"]},
        "dispatch": {"fan_out_cap": 3, **dispatch},
        "policy": {"default": {"flags": "watched", "runner": "grpc", "connector": "rest"}},
        "flag_refresh": {"min_interval": "1ms", **flag_refresh},
        "runners": {"grpc": {"plugin": "grpc"}},
        "targets": {"slots": dict.fromkeys(("shop", "rewards", "support", "travel"), target)},
    }
