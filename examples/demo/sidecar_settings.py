"""What the demo's sidecar is told: its settings file, and one more sub-agent beside the example definitions."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CONFIGURED_ENDPOINT: Final = "http://127.0.0.1:8480"
"""Where the example definitions expect the data service."""
STATUS_TYPES: Final = ("searching_offers", "looking_up_points_balance", "checking_order_status")

LISTED: Final = "sub_agents: [shop, rewards, support]"
TRAVEL: Final = """
  # Only in the demo: listed, but its flag is off, so that it is on nobody's surface.
  - id: travel
    description: Books trips with points.
    role: native
    model: gpt-5.4-mini-low
    prompt_blocks: [persona-shop]
    enabled_via_flag: ai_assistant_subagent_travel
"""


def with_travel(definitions: str) -> str:
    """Return the example definitions with a fourth sub-agent that nobody may call yet.

    Raises:
        ValueError: the example definitions do not list their sub-agents as expected.
    """
    if LISTED not in definitions:
        raise ValueError(f"the example definitions have no line {LISTED!r}")
    return definitions.replace(LISTED, LISTED.replace("]", ", travel]")) + TRAVEL


def sidecar_toml(folder: Path, targets: Mapping[str, str]) -> str:
    """Return the file: sockets in `folder`, cap 3, the status types of the example sub-agents, their hosts."""
    lines = [
        "[server]",
        f"dispatch_socket = {_text(folder / 'dispatch' / 'sidecar.sock')}",
        f"agents_socket = {_text(folder / 'agents' / 'sidecar.sock')}",
        f"boot_secret_file = {_text(folder / 'dispatch' / 'boot-secret')}",
        'ops_address = "127.0.0.1:0"',
        "reflection = true           # so that `buf curl` knows the services",
        'lame_duck = "0s"            # nobody balances load here',
        'drain_grace = "31s"',
        "",
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
        *(f"{slot} = {_text(target)}" for slot, target in targets.items()),
        "",
        "[log]",
        'format = "json"',
    ]
    for kind in STATUS_TYPES:
        lines += ["", f"[status.events.{kind}]", 'policy = "forward"']
    return "\n".join(lines) + "\n"


def _text(value: object) -> str:
    """Return a TOML string; JSON's are TOML's."""
    return json.dumps(str(value))
