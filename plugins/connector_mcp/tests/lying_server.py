"""A server over stdio without any library: right until one of its tools is called, which does what it is named for.

Started as a program: `python lying_server.py FILE`, which gets a line with the process id for each start.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any, Final

TOOLS: Final = tuple(
    {"name": name, "inputSchema": {"type": "object"}}
    for name in ("answer", "die", "endless", "silent", "babble", "nonsense")
)


def answer(message: dict[str, Any]) -> None:
    """Write the answer to a request; nothing for a notification."""
    match message.get("method"):
        case "initialize":
            result: dict[str, Any] = {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "lying", "version": "1"},
            }
        case "tools/list":
            result = {"tools": list(TOOLS)}
        case "tools/call":
            result = called(message["params"]["name"])
        case _:
            if "id" in message:
                said({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}})
            return
    said({"jsonrpc": "2.0", "id": message["id"], "result": result})


def called(tool: str) -> dict[str, Any]:
    """Do what a tool is named for."""
    match tool:
        case "die":
            os._exit(3)
        case "endless":
            while True:
                sys.stdout.write("x" * 65536)
        case "silent":
            threading.Event().wait()
        case "babble":
            said({"jsonrpc": "2.0", "id": 10_000, "result": {"content": [{"type": "text", "text": "for nobody"}]}})
        case "nonsense":
            return {"content": "no list"}
    return {"content": [{"type": "text", "text": f"{os.getpid()}"}]}


def said(message: dict[str, Any]) -> None:
    """Write one message."""
    sys.stdout.write(f"{json.dumps(message)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with Path(sys.argv[1]).open("a", encoding="ascii") as starts:
        starts.write(f"{os.getpid()}\n")
    sys.stdout.write("a banner that is no message\n")
    for line in sys.stdin:
        answer(json.loads(line))
