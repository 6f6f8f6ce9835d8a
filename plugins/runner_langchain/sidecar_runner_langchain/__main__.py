"""`python -m sidecar_runner_langchain --listen unix:/run/agents/agents.sock`: runs any card."""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from typing import Final

from sidecar_runner_langchain.factories import runtime_from
from sidecar_runner_langchain.host import langchain_host
from sidecar_runner_langchain.runtime import AgentLimits
from subagents_client.runner import HostLimits

CANNOT_START: Final = 78
"""EX_CONFIG: starting it again will not help."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    chosen = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        runtime = runtime_from(
            graphs=chosen.graphs,
            models=chosen.models,
            tools=chosen.tools,
            limits=AgentLimits(most_steps=chosen.most_steps),
        )
        limits = HostLimits(most_runs=chosen.most_runs, allow_remote=chosen.allow_remote)
        asyncio.run(langchain_host(runtime, limits).serve(chosen.listen))
    except (ValueError, OSError) as problem:
        print(f"cannot start: {problem}", file=sys.stderr)  # noqa: T201 - for the terminal of the operator
        return CANNOT_START
    except SystemExit as refused:  # of `serve`, which has said why
        return CANNOT_START if refused.code is None else int(refused.code)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("sidecar_runner_langchain", description="Runs any card of the dispatch sidecar.")
    parser.add_argument("--listen", required=True, help="unix:/run/agents/agents.sock, or a port of the loopback")
    parser.add_argument(
        "--graphs", action="append", default=[], metavar="MODULE:FACTORY", help="returns compiled graphs by slot"
    )
    parser.add_argument(
        "--tools", action="append", default=[], metavar="MODULE:FACTORY", help="returns functions of local tools by id"
    )
    parser.add_argument("--models", metavar="MODULE:FACTORY", help="returns a function that makes the model of a card")
    parser.add_argument("--most-runs", type=int, default=64, help="attempts at a time")
    parser.add_argument("--most-steps", type=int, default=25, help="steps of one run's graph")
    parser.add_argument("--allow-remote", action="store_true", help="beyond this machine: only behind a mesh")
    return parser


if __name__ == "__main__":
    sys.exit(main())
