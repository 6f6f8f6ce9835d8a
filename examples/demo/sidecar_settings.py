"""What the demo's sidecar is told: its settings file."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

STATUS_TYPES: Final = ("searching_offers", "looking_up_points_balance", "checking_order_status")
DEPLOYMENT: Final = "demo"
ADA: Final = "ada@demo"
"""Who operates it."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What the sidecar is told of others.

    Attributes:
        targets: of the runner hosts, by slot.
        gates: URL of the gate service.
        operator_key: the public key whose role tokens count.
        users: user and group of each runner host, by slot; empty: that of the sidecar.
    """

    targets: Mapping[str, str]
    gates: str
    operator_key: Path
    users: Mapping[str, int] = field(default_factory=dict)


def sidecar_toml(folder: Path, neighbours: Neighbours) -> str:
    """Return the file: sockets in `folder`, cap 3, the status types of the example sub-agents, their hosts, gates."""
    lines = [
        "[server]",
        f"dispatch_socket = {_text(folder / 'dispatch' / 'sidecar.sock')}",
        f"agents_socket = {_text(folder / 'agents' / 'sidecar.sock')}",
        f"boot_secret_file = {_text(folder / 'dispatch' / 'boot-secret')}",
        'ops_address = "127.0.0.1:0"',
        "reflection = true           # so that `buf curl` knows the services",
        'lame_duck = "0s"            # there is no load balancer here',
        'drain_grace = "31s"',
        "",
        *_groups(folder, neighbours.users),
        "[record.sqlite]",
        f"path = {_text(folder / 'record' / 'record.sqlite')}",
        "",
        "[definitions]",
        f"path = {_text(folder / 'config')}",
        "git_commits = false",
        "",
        "[dispatch]",
        "fan_out_cap = 3             # three verticals; more calls at once are dropped, and said to be",
        'join_timeout = "30s"',
        "",
        "[targets.slots]",
        *(f"{slot} = {_text(target)}" for slot, target in neighbours.targets.items()),
        "",
        *_rollouts(folder, neighbours),
        "[log]",
        'format = "json"',
    ]
    for kind in STATUS_TYPES:
        lines += ["", f"[status.events.{kind}]", 'policy = "forward"']
    return "\n".join(lines) + "\n"


def _groups(folder: Path, users: Mapping[str, int]) -> Iterator[str]:
    """Yield a group for each runner host that has a user of its own."""
    for slot, user in users.items():
        yield f"[server.host_groups.{slot}]"
        yield f"directory = {_text(folder / slot)}"
        yield f"group = {user}"
        yield f"slots = [{_text(slot)}]"
        yield ""


def _rollouts(folder: Path, neighbours: Neighbours) -> Sequence[str]:
    """Return who operates rollouts, and who is asked for them."""
    return [
        "[rollout]",
        "auto_promote_unflagged = true # shop, rewards and support name no flag, and serve from the start",
        "",
        "[operators]",
        f"socket = {_text(operator_socket(folder))}",
        f'deployment = "{DEPLOYMENT}"',
        f"keys = [{_text(neighbours.operator_key)}]",
        "",
        "[plugins]",
        'enabled = ["sidecar-gates-http"]',
        "",
        "[policy.default]",
        'flags = "embedded"',
        'gates = "http"',
        "",
        "[gates.http]",
        'plugin = "http"',
        f"url = {_text(neighbours.gates)}",
        "",
    ]


def operator_socket(folder: Path) -> Path:
    """Return where operators reach the sidecar."""
    return folder / "operators" / "sidecar.sock"


def _text(value: object) -> str:
    """Return a TOML string; JSON's are TOML's."""
    return json.dumps(str(value))
