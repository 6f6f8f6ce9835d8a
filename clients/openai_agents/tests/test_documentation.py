"""What docs/adapters.md shows works."""

import re
from pathlib import Path
from typing import Any

from subagents_client import SidecarClient, ToolCall
from tests.support.harness import SECRET, running_sidecar_for_tests

PAGE = Path(__file__).resolve().parents[3] / "docs/adapters.md"


async def test_the_adapter_of_the_page_makes_parallel_tools_one_dispatch() -> None:
    """Over a real socket; the routing decision lists the calls in emission order."""
    page: dict[str, Any] = {"__name__": "adapters"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), page)
    calls = [ToolCall(f"call-{one}", f"ask_{one}", '{"request": "x"}') for one in ("support", "shop", "rewards")]
    async with (
        running_sidecar_for_tests(cap=3) as sidecar,
        SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET) as client,
    ):
        assert await page["one_turn"](client, calls) == ["hello from support", "hello from shop", "hello from rewards"]
        assert len(sidecar.recorder.of("turn_routed")) == 1
        assert sorted(sidecar.runner.started) == ["rewards", "shop", "support"]
