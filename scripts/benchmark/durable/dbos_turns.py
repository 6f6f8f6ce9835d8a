"""The same turn in DBOS: a workflow of eight steps at a time, each of which sleeps 20 ms, recorded in a database.

    python -m scripts.benchmark.durable.dbos_turns --database URL --target NAME [--cpu N]

DBOS as it comes, but with its log turned down; it records the workflow, each step and the end.
"""

import argparse
import asyncio

from dbos import DBOS

from scripts.benchmark.definitions import ANSWER, MOST_CHILDREN, SLEEP_SECONDS
from scripts.benchmark.durable.answering import answer
from scripts.benchmark.serving import pin


@DBOS.step()
async def ask(number: int) -> str:
    """Answer after a while."""
    await asyncio.sleep(SLEEP_SECONDS)
    return ANSWER


@DBOS.workflow()
async def ask_all() -> list[str]:
    """Ask all at the same time."""
    return list(await asyncio.gather(*(ask(number) for number in range(MOST_CHILDREN))))


def main() -> None:
    """Read the command line, and run turns until standard input ends."""
    parser = argparse.ArgumentParser(description="Turns in DBOS.")
    parser.add_argument("--database", required=True)
    parser.add_argument("--target", required=True)
    parser.add_argument("--cpu", type=int)
    given = parser.parse_args()
    pin(given.cpu)
    DBOS(config={"name": "bench", "system_database_url": given.database, "log_level": "ERROR"})
    DBOS.launch()
    try:
        asyncio.run(answer({given.target: ask_all}))
    finally:
        DBOS.destroy()


if __name__ == "__main__":
    main()
