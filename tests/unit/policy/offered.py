"""A built-in plugin that offers what a test wants, with objects that do nothing."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.loading import PluginHost, load_plugins
from sidecar.policy.protocols import EnricherCall, EnricherRefused, FlagReport, RefusalKind, RunnerEvent, RunRequest
from sidecar.policy.specs import ConnectorSpec, EpisodeMemorySpec, FlagBackendSpec, RunnerConfig, RunnerSpec


class QuietFlags:
    """No flag is on."""

    async def fetch(self) -> FlagReport:
        """Return nothing that is on."""
        return FlagReport(frozenset(), "1")

    async def changed(self) -> None:
        """Hint at once."""

    async def close(self) -> None:
        """Do nothing."""


class QuietRunner:
    """Runs nothing."""

    def __init__(self, config: RunnerConfig) -> None:
        self.config = config

    @property
    def target(self) -> str:
        """Return what it was made for."""
        return self.config.target or "nowhere"

    async def run(self, request: RunRequest) -> AsyncIterator[RunnerEvent]:
        """Yield nothing."""
        nothing: tuple[RunnerEvent, ...] = ()
        for event in nothing:
            yield event

    async def close(self) -> None:
        """Do nothing."""


class QuietConnector:
    """Refuses everything."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings

    async def enrich(self, call: EnricherCall) -> EnricherRefused:
        """Refuse."""
        return EnricherRefused(RefusalKind.UNAVAILABLE)

    async def close(self) -> None:
        """Do nothing."""


def flags(name: str) -> FlagBackendSpec:
    """Describe a flag backend."""
    return FlagBackendSpec(
        name=name, contract="flag-backend/1", summary=f"Flags {name}", factory=lambda settings: QuietFlags()
    )


def runner(name: str) -> RunnerSpec:
    """Describe a runner."""
    return RunnerSpec(name=name, contract="runner/1", summary=f"Runner {name}", factory=QuietRunner)


def connector(name: str) -> ConnectorSpec:
    """Describe a connector."""
    return ConnectorSpec(name=name, contract="connector/1", summary=f"Connector {name}", factory=QuietConnector)


def memory(name: str) -> EpisodeMemorySpec:
    """Describe an episode memory that nobody makes."""
    return EpisodeMemorySpec(
        name=name, contract="episode-memory/1", summary=f"Memory {name}", factory=lambda settings: _unmade(name)
    )


def _unmade(name: str) -> Any:
    raise LookupError(f"no test makes the episode memory {name}")


AnySpec = FlagBackendSpec | RunnerSpec | ConnectorSpec | EpisodeMemorySpec


class Offering:
    """A plugin object with these descriptors."""

    def __init__(self, *specs: AnySpec) -> None:
        self._specs = specs

    @hookimpl
    def sidecar_flag_backends(self) -> Sequence[FlagBackendSpec]:
        """Offer the flag backends."""
        return [spec for spec in self._specs if isinstance(spec, FlagBackendSpec)]

    @hookimpl
    def sidecar_runners(self) -> Sequence[RunnerSpec]:
        """Offer the runners."""
        return [spec for spec in self._specs if isinstance(spec, RunnerSpec)]

    @hookimpl
    def sidecar_connectors(self) -> Sequence[ConnectorSpec]:
        """Offer the connectors."""
        return [spec for spec in self._specs if isinstance(spec, ConnectorSpec)]

    @hookimpl
    def sidecar_episode_memories(self) -> Sequence[EpisodeMemorySpec]:
        """Offer the episode memories."""
        return [spec for spec in self._specs if isinstance(spec, EpisodeMemorySpec)]


def host_of(*specs: AnySpec) -> PluginHost:
    """Load one plugin that offers these."""
    return load_plugins([Offering(*specs)], PluginSelection(), offers=())


PLATFORM = (flags("memory"), runner("grpc"), connector("rest"), memory("in_process"))
