"""Creates the episode memory (the store of conversations) that the settings select, and opens it at the start.

Conversations have a separate file beside the record, or separate tables in its database. Writes of conversations
therefore never delay those of the record, and conversations can be backed up, retained and removed separately.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from sidecar.adapters.memory_sqlite import SqliteMemory
from sidecar.adapters.migrations import DatabaseProblem
from sidecar.adapters.plugin_threads.threads import PluginThreads
from sidecar.adapters.system import SecretFileProblem, closed
from sidecar.composition.plugins.built_ins import BUILT_INS
from sidecar.composition.plugins.from_settings import plugin_sections, policy_settings
from sidecar.composition.plugins.memory_store import STORE, STORE_MEMORY
from sidecar.composition.record.open_record import dsn_of
from sidecar.core.errors import StoreUnavailable
from sidecar.observability.metrics import Metrics
from sidecar.observability.recorder import MeasuringRecorder
from sidecar.observability.redaction import Redactor
from sidecar.operations.history.memory_boundary import BoundedMemory
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.factory import make_episode_memory
from sidecar.policy.loading import load_plugins
from sidecar.policy.memory import EpisodeMemory
from sidecar.policy.selection import PolicyMap, resolve_policy
from sidecar.policy.specs import EpisodeMemorySpec
from sidecar.settings import Settings, SettingsProblem

FILE: Final = "conversations.sqlite"
FORGETS: Final = "in_process"
"""The plugin that keeps conversations in the memory of the process, and so loses them when the process ends."""


def memory_section(settings: Settings, memory: EpisodeMemorySpec, redactor: Redactor) -> Mapping[str, Any]:
    """Return the settings of a memory. The memory `store` uses the values of `[record]` for missing values.

    Raises:
        SettingsProblem: the record's address cannot be read.
    """
    configured, record = settings.memories.get(memory.name, {}), settings.record
    # A place that is configured wins, also if the record is in another kind of database.
    if not _is_store(memory) or "path" in configured or "dsn" in configured:
        return configured
    if record.database == "sqlite":
        return {**configured, "path": str(record.sqlite.path.with_name(FILE))}
    if record.database == "postgresql":
        try:
            return {**configured, "dsn": dsn_of(record.postgresql, redactor)}
        except SecretFileProblem as problem:
            raise SettingsProblem([f"record.postgresql: {problem}"]) from None
    return configured


async def open_memory(
    policy: PolicyMap, settings: Settings, redactor: Redactor, anomaly: Callable[[str, str], None]
) -> EpisodeMemory:
    """Create the memory and open its database, so that errors appear at the start and not at the first turn.

    Args:
        policy: selects it.
        settings: of the sidecar.
        redactor: learns the address of the database.
        anomaly: receives the report that a memory of an installed plugin blocks its thread.

    Raises:
        PluginProblem: its settings are wrong.
        SettingsProblem: its database cannot be opened; the text says why and what to do.
    """
    # A memory of an installed plugin gets a thread of its own, because it may block.
    memory = PluginThreads(policy.host, anomaly).made(policy.memory, lambda: _make_memory(policy, settings, redactor))
    try:
        if isinstance(memory, SqliteMemory):
            await memory.open()
        elif _is_store(policy.memory):
            await memory.open()  # type: ignore[attr-defined]  # PostgresMemory, whose library is an extra
    except (DatabaseProblem, StoreUnavailable) as problem:
        # The thread and the connection of the memory exist already, and would keep the process from ending.
        await memory.close()
        raise SettingsProblem([f"memories.{policy.memory.name}: {problem}"]) from None
    return memory


def _make_memory(policy: PolicyMap, settings: Settings, redactor: Redactor) -> EpisodeMemory:
    """Create the memory that the policy selects."""
    section = memory_section(settings, policy.memory, redactor)
    if policy.memory is STORE_MEMORY and settings.record.database == "sqlite" and not settings.memories.get(STORE):
        return STORE_MEMORY.factory(section)  # its settings come from `[record]`, which was already checked
    return make_episode_memory(policy.memory, section)


def _is_store(memory: EpisodeMemorySpec) -> bool:
    """Return whether a memory is `store` or an instance of it, which has another name and the same factory."""
    return memory.factory is STORE_MEMORY.factory


@asynccontextmanager
async def conversations_of(settings: Settings) -> AsyncIterator[BoundedMemory]:
    """Open the conversations of a deployment without a sidecar.

    Raises:
        SettingsProblem: the memory loses its conversations when the process ends, or cannot be opened.
        PluginProblem: the plugin is not installed, or its settings are wrong.
    """
    async with kept_conversations(settings) as memory:
        if memory is None:
            raise SettingsProblem(
                ["policy.default.memory: `in_process` forgets; choose a memory that keeps conversations"]
            )
        yield memory


@asynccontextmanager
async def kept_conversations(settings: Settings) -> AsyncIterator[BoundedMemory | None]:
    """Open the conversations; None if the memory loses them when the process ends."""
    from sidecar.policy.instances import with_instances  # noqa: PLC0415  the start of a sidecar does not need it

    loaded = load_plugins(BUILT_INS, PluginSelection(tuple(settings.plugins.enabled)))
    policy = resolve_policy(policy_settings(settings), with_instances(loaded, plugin_sections(settings)))
    # By plugin and not by name: an instance of the plugin has another name, and forgets as well.
    if policy.host.plugin_of(policy.memory) == FORGETS:
        yield None
        return
    # No metrics are served here; the recorder only logs anomalies.
    recorder = MeasuringRecorder(Metrics())
    memory = await open_memory(policy, settings, Redactor(), recorder.anomaly)
    try:
        yield BoundedMemory(memory, recorder, settings.history.timeout)
    finally:
        await closed(memory.close)
