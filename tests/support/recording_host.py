"""`python -m tests.support.recording_host --listen unix:... --record file`: a host that keeps and repeats all it gets.

Whatever reaches a sub-agent is appended to the file, one JSON object a line, and then said again in every way a
sub-agent has: progress, components, narration. So data that got here by mistake would spread as far as it can.
"""

import argparse
import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from subagents_client.runner import Answer, DataUnavailable, HostLimits, Run, RunnerHost

TOOL_OF: Final = {"shop": "search_offers", "rewards": "points_balance", "support": "order_status"}
LONGEST_ATTRIBUTE: Final = 200


class Recording:
    """The file. Lines are written at once, so that a reader misses nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, **fields: Any) -> None:
        """Append one line."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields, ensure_ascii=False, default=str) + "\n")


async def tell_all(run: Run, recording: Recording) -> Answer:
    """Keep the request, ask for data, keep it, and repeat it."""
    about = {"child_id": run.child_id, "slot": run.sub_agent_id, "principal": run.context.principal}
    recording.write(
        kind="run",
        **about,
        arguments=dict(run.arguments),
        contract=dict(run.contract),
        prompt=run.card.prompt_prefix + run.prompt_suffix,
        context=repr(run.context),
    )
    arguments = {"query": run.request} if run.sub_agent_id == "shop" else {}
    data = await run.call_tool(TOOL_OF[run.sub_agent_id], arguments)
    if isinstance(data, DataUnavailable):
        recording.write(kind="data", **about, payload=None)
        return Answer("There is no data.", data_unavailable=True)
    recording.write(kind="data", **about, payload=data.payload, partial=data.partial)
    words = " / ".join(leaves(data.payload))
    await run.status("searching_offers", what=words[:LONGEST_ATTRIBUTE])
    if run.sub_agent_id == "shop":
        first = data.payload["offers"][0]
        card = {name: first[name] for name in ("offer_id", "title", "merchant", "points")}
        run.render("render_offer_card", tool_input={"title": first["title"]}, component_data=card)
    return Answer(words)


def leaves(value: Any) -> Iterator[str]:
    """Yield every plain value within a JSON value, as text."""
    if isinstance(value, dict):
        for each in value.values():
            yield from leaves(each)
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
    else:
        yield str(value)


async def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.recording_host")
    parser.add_argument("--listen", required=True)
    parser.add_argument("--record", type=Path, required=True)
    options = parser.parse_args()
    recording = Recording(options.record)
    host = RunnerHost(limits=HostLimits(grace=timedelta(seconds=2)))

    @host.any_sub_agent()
    async def any_slot(run: Run) -> Answer:
        return await tell_all(run, recording)

    await host.serve(options.listen)


if __name__ == "__main__":
    asyncio.run(main())
