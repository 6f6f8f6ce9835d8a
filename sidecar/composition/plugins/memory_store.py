"""The episode memory `store`: keeps conversations in a SQLite file or a PostgreSQL database.

If its settings name neither, `composition.plugins.conversations` fills in the place and the retention of the record.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from sidecar.adapters.memory_sqlite import SqliteMemory
from sidecar.observability import event_names
from sidecar.observability.logging import StructuredLog
from sidecar.policy.memory import EpisodeMemory
from sidecar.policy.specs import EpisodeMemorySpec

STORE: Final = "store"


def _create(settings: Mapping[str, Any]) -> EpisodeMemory:
    """Create the memory from its settings. Raises `ValueError` if they name no place or the library is missing."""
    days = settings.get("keep_idle_days")
    keep_idle = None if days is None else timedelta(days=days)
    # Imported here: a sidecar without PostgreSQL need not have the library, nor spend time to load it.
    if settings.get("dsn"):
        try:
            from sidecar.adapters.memory_postgresql import PostgresMemory  # noqa: PLC0415  its library is an extra
        except ModuleNotFoundError:
            raise ValueError("needs the extra: pip install 'dispatch-sidecar[postgresql]'") from None
        return PostgresMemory(settings["dsn"], keep_idle, _report)
    # Only here: the schema cannot know whether composition fills in a place.
    if not settings.get("path"):
        raise ValueError("needs `path` or `dsn`, because the record is neither in SQLite nor in PostgreSQL")
    return SqliteMemory(Path(settings["path"]), keep_idle, _report)


def _report(doing: str, error: str) -> None:
    """Log a failed operation of the database as an anomaly."""
    StructuredLog("sidecar.conversations").warning(
        event_names.ANOMALY, f"could not {doing}: {error}", kind="history_disk"
    )


STORE_MEMORY: Final = EpisodeMemorySpec(
    name=STORE,
    contract="episode-memory/1",
    summary="Conversations in the sidecar's own database: a SQLite file, or PostgreSQL for replicas",
    config_schema={
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "minLength": 1,
                "description": "The SQLite file. Default: conversations.sqlite in the directory of the record.",
            },
            "dsn": {
                "type": "string",
                "minLength": 1,
                "description": "A PostgreSQL database. Default: that of the record. Never logged (a password).",
            },
            "keep_idle_days": {
                "type": "integer",
                "minimum": 2,
                "description": "Conversations that are idle for longer are removed. Default: none is removed.",
            },
        },
        # Not both: it would be unclear which of the two has the conversations.
        "not": {"required": ["path", "dsn"]},
        "additionalProperties": False,
    },
    capabilities=frozenset({"durable"}),
    factory=_create,
)


def sidecar_episode_memories() -> Sequence[EpisodeMemorySpec]:
    """Offer `store`."""
    return [STORE_MEMORY]
