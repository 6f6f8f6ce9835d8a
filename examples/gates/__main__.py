"""`python -m examples.gates --port 0`: prints `{"address": ...}` as one line, then serves until SIGTERM or Ctrl-C."""

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from examples.gates.server import ReferenceGates
from examples.gates.switches import Switch
from examples.http_serving import address_of, config_of, listening


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m examples.gates", description="Reference gate service with faults.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port (default)")
    parser.add_argument(
        "--switches", type=Path, help="JSON file with a list of switches; the last one that fits decides"
    )
    parser.add_argument("--token-file", type=Path, help="holds the bearer token that every question must bring")
    options = parser.parse_args()
    token = options.token_file.read_text("ascii").strip() if options.token_file else ""
    gates = ReferenceGates(token=token)
    for switch in _switches_in(options.switches):
        gates.switches.set(switch)
    sock = listening(options.host, options.port)
    print(json.dumps({"address": address_of(sock)}), flush=True)
    uvicorn.Server(config_of(gates.app(), "critical")).run(sockets=[sock])


def _switches_in(path: Path | None) -> list[Switch]:
    text: Any = b"[]" if path is None else path.read_bytes()
    return msgspec.json.decode(text, type=list[Switch])


if __name__ == "__main__":
    main()
