"""`python -m sidecar_gates_manifest MANIFEST`: prints `{"address": ...}` as one line, then serves until SIGTERM."""

import argparse
import json
import signal
import threading
from pathlib import Path

import msgspec

from sidecar.policy.lifecycle import GateAnswer
from sidecar_gates_manifest.client import ManifestGates
from sidecar_gates_manifest.service import GateService, Question


def log(question: Question, answer: GateAnswer) -> None:
    """Print a decision as one line of JSON."""
    print(msgspec.json.encode({"question": question, "answer": answer}).decode(), flush=True)  # noqa: T201  its output


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(
        prog="python -m sidecar_gates_manifest", description="A manifest as a gate service."
    )
    parser.add_argument("manifest", type=Path, help="evaluation_manifest.yaml; read at each question")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 takes a free one (default)")
    parser.add_argument("--token-file", type=Path, help="holds the bearer token that every question must bring")
    parser.add_argument("--accept-offline", action="store_true", help="results of a stand-in count; only for a demo")
    parser.add_argument("--log", action="store_true", help="print each decision: the question and its answer, as JSON")
    options = parser.parse_args()
    token = options.token_file.read_text("ascii").strip() if options.token_file else ""
    gates = ManifestGates(options.manifest, accept_offline=options.accept_offline)
    service = GateService("127.0.0.1", options.port, gates, token, log if options.log else lambda *_: None)
    for which in (signal.SIGTERM, signal.SIGINT):
        # `shutdown` waits for the loop that this thread runs, so it must be called from another one.
        signal.signal(which, lambda *_: threading.Thread(target=service.shutdown).start())
    print(json.dumps({"address": f"http://127.0.0.1:{service.server_address[1]}"}), flush=True)  # noqa: T201  its output
    service.serve_forever(poll_interval=0.1)
    service.server_close()


if __name__ == "__main__":
    main()
