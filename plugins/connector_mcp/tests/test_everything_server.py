"""The official "everything" server from npm, over both transports. What it answers is carried, and is no envelope."""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from plugins.connector_mcp.tests.asking import a_call, answered, asked, refused
from sidecar.policy.protocols import (
    Decision,
    EnricherAsks,
    EnricherRefused,
    EnricherReply,
    QuestionKind,
    RefusalKind,
    ServiceAnswer,
)
from sidecar_connector_mcp.pins import main
from sidecar_connector_mcp.plugin import mcp_connector
from tests.support.named_skips import needs_tool
from tests.support.operated_process import free_port

PACKAGE: Final = Path(__file__).parent / "everything"
PROGRAM: Final = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the server from its lock; give its program."""
    needs_tool("node", package="nodejs")
    npm = needs_tool("npm")
    folder = tmp_path_factory.mktemp("everything")
    for file in ("package.json", "package-lock.json"):
        (folder / file).write_bytes((PACKAGE / file).read_bytes())
    environment = {**os.environ, "npm_config_cache": str(folder / "cache"), "npm_config_update_notifier": "false"}
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return folder / PROGRAM


@asynccontextmanager
async def serving(program: Path) -> AsyncIterator[str]:
    """Run the server over HTTP; yield its URL."""
    port = await free_port()
    process = await asyncio.create_subprocess_exec(
        *("node", str(program), "streamableHttp"),
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        while b"listening" not in await process.stderr.readline():
            pass
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        await process.wait()


@pytest.mark.system
@pytest.mark.seconds(120)
async def test_its_tools_are_called_over_http(everything: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pinned with `sidecar mcp-pins`; a call that is given up is cancelled, and the session goes on."""
    async with serving(everything) as url:
        assert await asyncio.to_thread(main, ["all", "--url", url]) == 0
        endpoints = {line.partition("#")[0]: line for line in capsys.readouterr().out.split()}
        connector = mcp_connector({"servers": {"all": {"url": url}}})
        said = await answered(connector, endpoint=endpoints["mcp:all/echo"], arguments_json='{"message": "häl\\u0000"}')
        weather = await answered(
            connector, endpoint=endpoints["mcp:all/get-structured-content"], arguments_json='{"location": "Chicago"}'
        )
        long = endpoints["mcp:all/trigger-long-running-operation"]
        given_up = await asked(connector, endpoint=long, timeout=timedelta(milliseconds=300))
        kind, _ = await refused(connector, endpoint=endpoints["mcp:all/get-sum"], arguments_json='{"a": "no number"}')
        ignored, _ = await refused(connector, endpoint=endpoints["mcp:all/get-tiny-image"])
        await connector.close()

    assert said == "Echo: häl\x00".encode()
    assert weather.startswith(b'{"temperature":')
    assert given_up == EnricherRefused(RefusalKind.TIMEOUT)
    assert kind is RefusalKind.UNAVAILABLE
    assert ignored is RefusalKind.MALFORMED


@pytest.mark.system
@pytest.mark.seconds(120)
async def test_its_tools_are_called_over_stdio(everything: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the same pins command; two calls run at once."""
    command = ["node", str(everything), "stdio"]
    assert await asyncio.to_thread(main, ["all", "--command", *command]) == 0
    endpoints = {line.partition("#")[0]: line for line in capsys.readouterr().out.split()}
    connector = mcp_connector({"servers": {"all": {"command": command}}})
    calls = [a_call(endpoint=endpoints["mcp:all/echo"], arguments_json=f'{{"message": "{each}"}}') for each in "ab"]
    replies = await asyncio.gather(*(connector.enrich(call) for call in calls))
    await connector.close()

    assert [reply.body for reply in replies if not isinstance(reply, EnricherRefused)] == [b"Echo: a", b"Echo: b"]


def test_the_lock_names_versions_and_hashes_but_no_address() -> None:
    """Any mirror that has the same files will do."""
    text = (PACKAGE / "package-lock.json").read_text(encoding="utf-8")
    wanted = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    packages = {name: entry for name, entry in json.loads(text)["packages"].items() if name}

    assert "://" not in text
    assert "resolved" not in text
    assert all(entry["integrity"].startswith("sha512-") for entry in packages.values())
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted


def with_answer(reply: EnricherReply, text: str, decision: Decision | None) -> ServiceAnswer:
    """Return a user's answer to the question in a reply."""
    assert isinstance(reply, EnricherAsks), f"{reply} {getattr(reply, 'fault', None)}"
    question = reply.asked
    return ServiceAnswer(question.kind, question.text, question.about_json, text, decision, question.state)


@pytest.mark.system
@pytest.mark.seconds(120)
async def test_its_elicitations_are_questions(everything: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A form and an address. It does not say whom it asks, for which the gateway passes no question on."""
    async with serving(everything) as url:
        assert await asyncio.to_thread(main, ["all", "--url", url, "--questions"]) == 0
        endpoints = {line.partition("#")[0]: line for line in capsys.readouterr().out.split()}
        connector = mcp_connector({"servers": {"all": {"url": url, "questions": True}}})
        form = {"endpoint": endpoints["mcp:all/trigger-elicitation-request"]}
        asks = await asked(connector, **form)
        given = with_answer(asks, json.dumps({"name": "Ada", "integer": 7}), None)
        told = await asked(connector, **form, answer=given)
        page = {
            "endpoint": endpoints["mcp:all/trigger-url-elicitation"],
            "arguments_json": json.dumps({"url": "https://id.example.com/login"}),
        }
        leads = await asked(connector, **page)
        declined = await asked(connector, **page, answer=with_answer(leads, "", Decision.DECLINED))
        await connector.close()

    assert isinstance(asks, EnricherAsks)
    assert (asks.asked.kind, asks.principal) == (QuestionKind.NEEDS_INPUT, None)
    assert "name" in json.loads(asks.asked.about_json)["schema"]["properties"]
    assert (told, declined) == (EnricherRefused(RefusalKind.MALFORMED),) * 2  # its results are several texts
    assert isinstance(leads, EnricherAsks)
    assert leads.asked.kind is QuestionKind.NEEDS_AUTHORISATION
    assert json.loads(leads.asked.about_json)["url"] == "https://id.example.com/login"
