"""The sidecar as it is measured: all that `sidecar serve` builds, with sub-agents that answer at once as a plugin.

    python -m scripts.benchmark.sidecar_server --socket PATH --definitions FOLDER [--record WHERE] [--otlp URL]
        [--operator-key FILE [--policies]] [--turns N] [--turn-lifetime D] [--lanes] [--cpu N] [--profile F]

The record is in memory, in a SQLite file beside the socket, or at the address of a PostgreSQL. Metrics and log on (the
log goes to the null device), gRPC spans off: what the example settings say too. With an OTLP endpoint, spans of 1 % of
the traces, log records and metrics go there. The holder of the private half of an operator's key takes steps of
rollouts; with policies, three of them and a second audit sink are loaded.
"""

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripts.benchmark import instant_runner
from scripts.benchmark.clients import DISPATCHES_PER_TURN
from scripts.benchmark.definitions import MOST_CHILDREN
from scripts.benchmark.operating import DEPLOYMENT, operators_socket
from scripts.benchmark.serving import serve
from sidecar.adapters.system import reduce_gc_frequency
from sidecar.composition.parts import Overrides
from sidecar.composition.running import Sidecar, running_sidecar
from sidecar.observability.logging import logging_to
from sidecar.observability.redaction import Redactor
from sidecar.settings import Settings

MEMORY: Final = "memory"
SQLITE: Final = "sqlite"
POLICIES_FROM: Final = "sidecar-lifecycle-examples"
POLICIES: Final[dict[str, dict[str, Any]]] = {
    "change-freeze": {"timezone": "Europe/Berlin", "weekly": [{"days": ["sat"], "from": "00:00", "to": "24:00"}]},
    "largest-step": {"points": 20},
    "observation-time": {"at_least": "2d"},
}
TURNS: Final = 1000
IDLE_TURNS: Final = 5000
"""The default; more where more turns are left open, or each bind would end another turn."""
TURN_LIFETIME: Final = "20s"
"""Ended turns are kept so long; the default of 15 minutes would let one round weigh on the next ones."""


@dataclass(frozen=True, slots=True)
class Varied:
    """What differs between the measured sidecars.

    Attributes:
        record: `memory`, `sqlite`, or the address of a PostgreSQL.
        otlp: where telemetry goes; None: nowhere.
        operator_key: public key of the operator; None: no operator listener.
        policies: whether lifecycle policies are asked about steps.
        turns: most turns open at a time.
        turn_lifetime: after which a turn is closed; ended ones are kept so long.
        lanes: session lanes are offered, in revisions too where that is not the default.
        ended_turns, episodes: how many are kept in memory.
    """

    record: str = MEMORY
    otlp: str | None = None
    operator_key: Path | None = None
    policies: bool = False
    turns: int = TURNS
    turn_lifetime: str = TURN_LIFETIME
    lanes: bool = False
    ended_turns: int = 500
    episodes: int = 10_000


def settings(socket: Path, definitions: Path, varied: Varied) -> Settings:
    """Return the settings that are measured; what is not named here is as it is by default."""
    folder = socket.parent
    said: dict[str, Any] = {
        "server": {
            "dispatch_socket": socket,
            "agents_socket": folder / "agents.sock",
            "boot_secret_file": secret_file(socket),
            "ops_address": "127.0.0.1:0",
            "lame_duck": "0s",
        },
        "record": _record(varied.record, folder),
        "rollout": {"tombstone_file": folder / "kills.jsonl", "auto_promote_unflagged": True},
        "definitions": {"path": definitions, "git_commits": False},
        "dispatch": {
            "fan_out_cap": MOST_CHILDREN,
            "max_dispatches_per_turn": DISPATCHES_PER_TURN,
            "turn_lifetime": varied.turn_lifetime,
            "episodes_cached": varied.episodes,
            "admission": {
                "turns": varied.turns,
                "idle_turns": max(IDLE_TURNS, varied.turns),
                "ended_turns": varied.ended_turns,
            },
        },
        **({"session": {"enabled": True}} if varied.lanes else {}),
        "telemetry": {"otlp_endpoint": varied.otlp, "otlp_metrics_interval": "1s"},
        "status": {"events": {name: {} for name in instant_runner.STATUS_TYPES}},
    }
    return Settings(**said | _operated(socket, varied))


def _operated(socket: Path, varied: Varied) -> dict[str, Any]:
    if varied.operator_key is None:
        return {}
    operators = {"socket": operators_socket(socket), "deployment": DEPLOYMENT, "keys": [varied.operator_key]}
    said: dict[str, Any] = {"operators": operators}
    if varied.policies:
        said |= {
            "plugins": {"enabled": [POLICIES_FROM]},
            "policy": {"default": {"lifecycle": list(POLICIES)}},
            "lifecycle": {name: {"plugin": name, **said} for name, said in POLICIES.items()},
            "audit": {"sinks": ["log", "jsonl"]},
            "audit_sinks": {"jsonl": {"plugin": "jsonl", "path": str(socket.parent / "audit.jsonl")}},
        }
    return said


def _record(where: str, folder: Path) -> dict[str, Any]:
    if where == MEMORY:
        return {"database": MEMORY}
    if where == SQLITE:
        return {"database": SQLITE, "sqlite": {"path": folder / "record.sqlite"}}
    return {"database": "postgresql", "postgresql": {"dsn": where}}


def secret_file(socket: Path) -> Path:
    """Return where the sidecar of `socket` leaves its boot secret."""
    return socket.parent / "boot-secret"


@asynccontextmanager
async def sidecar_server(socket: Path, definitions: Path, redactor: Redactor, varied: Varied) -> AsyncIterator[Sidecar]:
    """Listen."""
    replaced = Overrides(plugins=(instant_runner,))
    async with running_sidecar(settings(socket, definitions, varied), redactor, replaced) as sidecar:
        reduce_gc_frequency()
        yield sidecar


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="A sidecar with sub-agents that answer at once.")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--definitions", type=Path, required=True)
    parser.add_argument("--record", default=MEMORY)
    parser.add_argument("--otlp")
    parser.add_argument("--operator-key", type=Path)
    parser.add_argument("--policies", action="store_true")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("--turn-lifetime", default=TURN_LIFETIME)
    parser.add_argument("--lanes", action="store_true")
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--profile", type=Path)
    given = parser.parse_args()
    redactor = Redactor()
    with open(os.devnull, "w", encoding="utf-8") as nowhere, logging_to(nowhere, "json", "info", redactor):
        varied = Varied(
            given.record,
            given.otlp,
            given.operator_key,
            given.policies,
            given.turns,
            given.turn_lifetime,
            given.lanes,
        )
        serve(sidecar_server(given.socket, given.definitions, redactor, varied), given.cpu, given.profile)


if __name__ == "__main__":
    main()
