"""The flags that are read from each backend, and the writer of each vertical's flags."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sidecar.adapters.flags_embedded import EmbeddedFlags, EmbeddedFlagWriter
from sidecar.adapters.flags_file import FILE_FLAGS, FileFlagEdits, FileFlags
from sidecar.adapters.flags_memory import FlagsInTheSettings, MemoryFlags, MemoryFlagWriter
from sidecar.core.definitions.cards.card import Catalogue
from sidecar.core.flag_states import FlagRoutes
from sidecar.core.identifiers import Vertical
from sidecar.core.rollout.view import RolloutView
from sidecar.operations.plugin_calls import PluginCalls
from sidecar.operations.ports import Clock
from sidecar.operations.rollout.flags.external_flags import ExternalFlags, FlagsOfPlugin
from sidecar.operations.rollout.store.ports import RolloutStore
from sidecar.policy.kinds import PLUGIN
from sidecar.policy.protocols import FlagBackend, FlagWriter


def flag_writers(
    backends: Mapping[str, FlagBackend],
    routes: FlagRoutes,
    settings: Mapping[str, Mapping[str, Any]],
    store: RolloutStore,
    clock: Clock,
    calls: PluginCalls,
) -> Callable[[Vertical], FlagWriter]:
    """Return a function that returns the writer for the flags of a vertical.

    Args:
        backends: the backends in use, by name.
        routes: select the backend of each vertical.
        settings: of the backends, by name.
        store: contains the embedded flags.
        clock: for the time of a switch.
        calls: make the calls to backends of plugins.
    """

    def made(name: str, backend: FlagBackend) -> FlagWriter:
        own = _own_writer(name, backend, settings.get(name, {}), store, clock)
        if own is not None:
            return own
        return FlagsOfPlugin(name, backend, calls) if isinstance(backend, FlagWriter) else ExternalFlags(name)

    writers = {name: made(name, backend) for name, backend in backends.items()}
    return lambda vertical: writers[routes.backend_of(vertical)]


def _own_writer(
    name: str, backend: FlagBackend, settings: Mapping[str, Any], store: RolloutStore, clock: Clock
) -> FlagWriter | None:
    if isinstance(backend, EmbeddedFlags):
        return EmbeddedFlagWriter(store, clock)
    if isinstance(backend, MemoryFlags):
        from sidecar.adapters.rollout_memory import MemoryRollouts  # noqa: PLC0415  only beside flags in memory

        return MemoryFlagWriter(backend) if isinstance(store, MemoryRollouts) else FlagsInTheSettings()
    if isinstance(backend, FileFlags) and settings.get(PLUGIN) == FILE_FLAGS.name:
        return FileFlagEdits(Path(settings["path"]))
    return None


def flag_names(backend: str, routes: FlagRoutes, catalogue: Catalogue | None, view: RolloutView) -> frozenset[str]:
    """Return the flags to read from `backend`: of the configuration, and of rollouts that are no longer in it."""
    named = (*_of_cards(catalogue), *_of_rollouts(view))
    return frozenset(name for name, vertical in named if name is not None and routes.backend_of(vertical) == backend)


def _of_cards(catalogue: Catalogue | None) -> Iterator[tuple[str | None, Vertical]]:
    for card in () if catalogue is None else catalogue.cards.values():
        for name in card.flags:
            yield name, card.definition.vertical


def _of_rollouts(view: RolloutView) -> Iterator[tuple[str | None, Vertical]]:
    for rollout in view.slots.values():
        for facts in rollout.definitions.values():
            yield facts.flag, facts.vertical
            yield facts.cohort_flag, facts.vertical
