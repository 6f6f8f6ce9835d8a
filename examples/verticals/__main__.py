"""`python -m examples.verticals shop --listen unix:/run/shop/shop.sock`: serves one sub-agent until SIGTERM."""

import argparse
import asyncio
import logging
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

from examples.verticals import rewards, shop, support, travel
from examples.verticals.staging import Staging, SubAgent, breakable
from subagents_client.runner import HostLimits, RunnerHost

SUB_AGENTS: Final[Mapping[str, SubAgent]] = {
    "shop": shop.answer,
    "rewards": rewards.answer,
    "support": support.answer,
    "travel": travel.answer,
}
GRACE: Final = timedelta(seconds=2)
"""Shorter than a service should have: a demo ends when it is told to."""


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m examples.verticals", description="One example sub-agent.")
    parser.add_argument("slot", choices=sorted(SUB_AGENTS))
    parser.add_argument("--listen", required=True, help="unix:<path>, or a loopback address and port")
    parser.add_argument("--pace", type=float, default=0.0, help="how slowly it works, for people; 0: at once (default)")
    parser.add_argument("--broken-while", type=Path, help="as long as this file exists, the sub-agent has a defect")
    parser.add_argument("--held-while", type=Path, help="as long as this file exists, travel is not done")
    parser.add_argument("--user", type=int, help="become this user and group before serving; only root can")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    staging = Staging(options.pace, options.broken_while, options.held_while)
    if options.user is not None:
        become(options.user)
    asyncio.run(_serve(options.slot, options.listen, staging))


def become(user: int) -> None:
    """Give up all rights of root for good. By then everything is imported: others may not read this interpreter."""
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)


async def _serve(slot: str, target: str, staging: Staging) -> None:
    host = RunnerHost(software=f"example-{slot}/1.0", limits=HostLimits(grace=GRACE))
    host.sub_agent(slot)(breakable(SUB_AGENTS[slot], staging))
    await host.serve(target)


if __name__ == "__main__":
    main()
