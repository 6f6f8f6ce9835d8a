"""What the documentation shows works."""

import ast
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from clients.python.tests.support.fake_sidecar_host import scene
from clients.python.tests.support.gateway_host import FakeGateway, gateway
from clients.python.tests.support.sidecar_side import hosted, request, said
from subagents.tools.v1 import tools_pb2

ROOT = Path(__file__).resolve().parents[3]
README = ROOT / "clients/python/README.md"
HOSTS = ROOT / "docs/runner-hosts.md"


def blocks(path: Path) -> list[str]:
    """Return the Python in a page."""
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def module(code: str) -> ModuleType:
    """Return the module that a block is."""
    made = ModuleType("from_the_documentation")
    exec(code, made.__dict__)
    return made


@pytest.mark.parametrize("path", [README, ROOT / "docs/sdk.md", HOSTS], ids=lambda path: path.name)
def test_every_example_imports_what_there_is(path: Path) -> None:
    """Names that moved are found here, not by a reader."""
    assert blocks(path)
    for block in blocks(path):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module:
                found = import_module(node.module)
                assert [one.name for one in node.names if not hasattr(found, one.name)] == []


async def test_the_first_dispatch_of_the_readme_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Against a sidecar that answers."""
    async with scene() as here:
        await module(blocks(README)[0]).first_dispatch(here.target, "secret-1")

        assert here.sidecar.methods() == ["BindTurn", "Dispatch", "EndTurn"]
    assert capsys.readouterr().out == "call-1 answer to call-1\n"


async def test_a_dispatch_is_watched_as_the_page_shows() -> None:
    """Every call is answered."""
    page = module(blocks(ROOT / "docs/sdk.md")[0])
    async with scene() as here:
        turn = await here.turn()
        from_readme = [page.ToolCall("call-1", "ask_shop")]

        assert await page.answer_calls(turn, from_readme, "en-US") == [("call-1", "answer to call-1")]


@pytest.mark.parametrize(
    ("code", "slot", "payload"),
    [(blocks(README)[1], "shop", "{}"), (blocks(HOSTS)[0], "rewards", '{"points": 7}')],
    ids=["readme", "runner-hosts"],
)
async def test_the_hosts_of_the_documentation_run(code: str, slot: str, payload: str, tmp_path: Path) -> None:
    """With a gateway that has data."""
    fake = FakeGateway(tools_pb2.CallToolResponse(payload_json=payload))
    async with gateway(fake, tmp_path) as target, hosted(module(code).host, tmp_path) as here:
        responses = await here.run(request(slot, gateway_target=target))

    assert "component" in said(responses)
    assert said(responses)[0] == "status"
    assert said(responses)[-1] == "finished"
