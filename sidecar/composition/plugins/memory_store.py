"""The episode memory `store`: conversations in the sidecar's own database, SQLite or PostgreSQL.

Its defaults come from the `[record]` section (see `conversations`).
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from sidecar.adapters.memory_sqlite import SqliteMemory
from sidecar.observability import names
from sidecar.observability.logging import StructuredLog
from sidecar.policy.memory import EpisodeMemory
from sidecar.policy.specs import EpisodeMemorySpec

STORE: Final = "store"


def _made(settings: Mapping[str, Any]) -> EpisodeMemory:
    days = settings.get("keep_idle_days")
    keep_idle = None if days is None else timedelta(days=days)
    if settings.get("dsn"):
        try:
            from sidecar.adapters.memory_postgresql import PostgresMemory  # noqa: PLC0415  its library is an extra
        except ModuleNotFoundError:
            raise ValueError("needs the extra: pip install 'dispatch-sidecar[postgresql]'") from None
        return PostgresMemory(settings["dsn"], keep_idle, _report)
    if not settings.get("path"):
        raise ValueError("needs a record in sqlite or postgresql, or a `path` of its own")
    return SqliteMemory(Path(settings["path"]), keep_idle, _report)


def _report(doing: str, error: str) -> None:
    StructuredLog("sidecar.conversations").warning(names.ANOMALY, f"could not {doing}: {error}", kind="history_disk")


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
                "description": "A SQLite file; default: conversations.sqlite beside the record.",
            },
            "dsn": {
                "type": "string",
                "minLength": 1,
                "description": "A PostgreSQL database; default: that of the record. Holds a password: never logged.",
            },
            "keep_idle_days": {
                "type": "integer",
                "minimum": 2,
                "description": "Whole conversations idle for longer are removed; default: they are kept for ever.",
            },
        },
        "not": {"required": ["path", "dsn"]},
        "additionalProperties": False,
    },
    capabilities=frozenset({"durable"}),
    factory=_made,
)


def sidecar_episode_memories() -> Sequence[EpisodeMemorySpec]:
    """Offer `store`."""
    return [STORE_MEMORY]
