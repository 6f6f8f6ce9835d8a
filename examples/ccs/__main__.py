"""`python -m examples.ccs --port 0`: prints `{"address": ...}` as one line, then serves until SIGTERM or Ctrl-C."""

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from examples.ccs.faults import Fault
from examples.ccs.server import ReferenceCcs
from examples.ccs.serving import address_of, config_of, listening


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m examples.ccs", description="Reference data service with faults.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port (default)")
    parser.add_argument("--faults", type=Path, help="JSON file with a list of switches to start with")
    options = parser.parse_args()
    sock = listening(options.host, options.port)
    ccs = ReferenceCcs()
    for fault in _faults_in(options.faults):
        ccs.faults.set(fault)
    print(json.dumps({"address": address_of(sock)}), flush=True)
    server = uvicorn.Server(config_of(ccs))
    server.run(sockets=[sock])


def _faults_in(path: Path | None) -> list[Fault]:
    text: Any = b"[]" if path is None else path.read_bytes()
    return msgspec.json.decode(text, type=list[Fault])


if __name__ == "__main__":
    main()
