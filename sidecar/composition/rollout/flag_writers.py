"""Selects the object that switches the flags of a vertical, and lists the flags to read from each backend.

The sidecar can switch flags of its own backends, and of plugins that support it. Flags of other backends are switched
in their own systems; the writer then says how.
"""

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
        routes: say which backend has the flags of a vertical.
        settings: of the backends, by name.
        store: contains the flags of the backend `embedded`.
        clock: for the time of a switch.
        calls: call the backends of plugins, with time limits.
    """

    def make_writer(name: str, backend: FlagBackend) -> FlagWriter:
        own = _own_writer(name, backend, settings.get(name, {}), store, clock)
        if own is not None:
            return own
        return FlagsOfPlugin(name, backend, calls) if isinstance(backend, FlagWriter) else ExternalFlags(name)

    # Created once for each backend, not for each vertical: verticals share backends.
    writers = {name: make_writer(name, backend) for name, backend in backends.items()}
    return lambda vertical: writers[routes.backend_of(vertical)]


def _own_writer(
    name: str, backend: FlagBackend, settings: Mapping[str, Any], store: RolloutStore, clock: Clock
) -> FlagWriter | None:
    """Return the writer of one of the sidecar's own backends; None: the backend belongs to a plugin."""
    if isinstance(backend, EmbeddedFlags):
        return EmbeddedFlagWriter(store, clock)
    if isinstance(backend, MemoryFlags):
        from sidecar.adapters.rollout_memory import MemoryRollouts  # noqa: PLC0415  only beside flags in memory

        # A switch in memory is lost at a restart. If the rollouts survive it, the old value would look like a new
        # switch, so only an edit of the settings may change such a flag.
        return MemoryFlagWriter(backend) if isinstance(store, MemoryRollouts) else FlagsInTheSettings()
    # Only the built-in plugin: another one may derive from `FileFlags` and read its file in its own way.
    if isinstance(backend, FileFlags) and settings.get(PLUGIN) == FILE_FLAGS.name:
        return FileFlagEdits(Path(settings["path"]))
    return None


def flag_names(backend: str, routes: FlagRoutes, catalogue: Catalogue | None, view: RolloutView) -> frozenset[str]:
    """Return the flags to read from `backend`.

    These are the flags of all definitions in the configuration, and of rollouts whose definitions have left it: open
    turns and targets may still depend on them.
    """
    flags = (*_of_cards(catalogue), *_of_rollouts(view))
    return frozenset(name for name, vertical in flags if name is not None and routes.backend_of(vertical) == backend)


def _of_cards(catalogue: Catalogue | None) -> Iterator[tuple[str | None, Vertical]]:
    for card in () if catalogue is None else catalogue.cards.values():
        for name in card.flags:
            yield name, card.definition.vertical


def _of_rollouts(view: RolloutView) -> Iterator[tuple[str | None, Vertical]]:
    for rollout in view.slots.values():
        for facts in rollout.definitions.values():
            yield facts.flag, facts.vertical
            yield facts.cohort_flag, facts.vertical
