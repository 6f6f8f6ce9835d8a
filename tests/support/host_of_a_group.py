"""`python -m tests.support.host_of_a_group <slot> <target>`: a runner host whose attempts wait until they may end.

Writes a JSON line when it serves, and one with the grant of each attempt. A line on its standard input lets them end.
"""

import asyncio
import json
import sys
from typing import Any

from subagents_client.runner import Run, RunnerHost


def say(**fields: Any) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{json.dumps(fields)}\n")
    sys.stdout.flush()


async def main(slot: str, target: str) -> None:
    """Serve until the standard input ends."""
    host, told = RunnerHost(), asyncio.Event()

    @host.sub_agent(slot)
    async def answer(run: Run) -> str:
        say(grant=run._grant, gateway=run._gateway_target)
        await told.wait()
        turns = await run.read_own_turns()
        return f"{slot} answers after {len(turns)} turns"

    async with host.serving(target):
        say(serves=slot)
        await asyncio.to_thread(sys.stdin.readline)
        told.set()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
