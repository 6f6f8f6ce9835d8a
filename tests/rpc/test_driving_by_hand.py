"""The commands of docs/driving-by-hand.md do what the page says."""

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.harness import SECRET, running_sidecar_for_tests
from tests.support.operators import an_operated_sidecar

ROOT: Final = Path(__file__).parents[2]
BLOCK: Final = re.compile(r"^```(sh|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
END_OF_BLOCK: Final = "----- end of block -----"


def blocks(page: str) -> list[tuple[str, list[Any]]]:
    """Return each command with the JSON that the page shows after it; none if it shows none."""
    found: list[tuple[str, list[Any]]] = []
    for kind, text in BLOCK.findall(page):
        if kind == "sh":
            found.append((text, []))
        else:
            found[-1][1].extend(documents(text))
    return found


def documents(text: str) -> list[Any]:
    """Return each JSON value of a text that holds one after the other."""
    decoder, values, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        values.append(value)
        rest = rest[end:].lstrip()
    return values


def shows(actual: Any, expected: Any) -> bool:
    """Say whether everything that the page shows is in the answer; the page may leave fields out."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            key in actual and shows(actual[key], value) for key, value in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(shows, actual, expected))
    return bool(actual == expected)


async def output_of(script: str, environment: dict[str, str]) -> str:
    """Run a script in bash; what it writes to the error stream is shown if it fails."""
    bash = await asyncio.create_subprocess_exec(
        "bash",
        "-euc",
        script,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=ROOT,
    )
    out, err = await bash.communicate()
    assert bash.returncode == 0, err.decode()
    return out.decode()


def environment(folder: Path, socket: str) -> dict[str, str]:
    """Return what the page's commands find: the socket, the secret, `buf` and Python of the tests, and nothing else."""
    secret = folder / "boot-secret"
    secret.write_text(SECRET + "\n")
    tools = str(Path(sys.executable).parent)
    assert shutil.which("buf", path=f"{tools}:{os.environ['PATH']}"), "the tests need buf (buf-bin)"
    return {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(folder),
        "SOCKET": socket,
        "SECRET_FILE": str(secret),
    }


def halves() -> tuple[list[tuple[str, list[Any]]], list[tuple[str, list[Any]]]]:
    """Return the commands of a turn, and those of a rollout."""
    turn, found, rollout = (ROOT / "docs" / "driving-by-hand.md").read_text().partition("\n## A rollout\n")
    assert found
    return blocks(turn), blocks(rollout)


async def each_shows(page: list[tuple[str, list[Any]]], environment: dict[str, str]) -> None:
    """Run all commands, in order, in one shell; each has to show what the page says."""
    script = "".join(f"{command}\necho '{END_OF_BLOCK}'\n" for command, _ in page)
    answers = (await output_of(script, environment)).split(END_OF_BLOCK)
    assert len(answers) == len(page) + 1
    for (command, expected), answer in zip(page, answers, strict=False):
        shown = documents(answer)
        for one in expected:
            assert any(shows(each, one) for each in shown), f"{command}\nshowed\n{answer}\nand not\n{one}"


async def test_every_command_of_the_page_shows_what_the_page_says(tmp_path: Path) -> None:
    """Those of a turn, against a running sidecar with reflection."""
    turn, _ = halves()
    assert sum(len(expected) for _, expected in turn) >= 10
    async with running_sidecar_for_tests(reflection=True) as sidecar:
        socket = sidecar.dispatch_target.removeprefix("unix:")
        await each_shows(turn, environment(tmp_path, socket))


async def test_a_rollout_by_hand_shows_what_the_page_says(tmp_path: Path) -> None:
    """Those of a rollout, at the operators' socket, with a role token and reflection; the first block is of both."""
    turn, rollout = halves()
    assert sum(len(expected) for _, expected in rollout) >= 7
    async with an_operated_sidecar(reflection=True) as bench:
        mine = environment(tmp_path, bench.sidecar.dispatch_target.removeprefix("unix:"))
        mine |= {
            "OPERATORS": str(bench.sidecar.folder / "operators.sock"),
            "SIDECAR_ROLE_TOKEN": bench.token("operator"),
        }
        await each_shows([turn[0], *rollout], mine)


async def test_the_protos_will_do_where_reflection_is_off(tmp_path: Path) -> None:
    """`--schema proto`, as the page says."""
    async with running_sidecar_for_tests() as sidecar:
        socket = sidecar.dispatch_target.removeprefix("unix:")
        script = (
            'buf curl --protocol grpc --http2-prior-knowledge --unix-socket "$SOCKET" --schema proto '
            '--header "x-subagents-boot-secret: $(cat "$SECRET_FILE")" --data \'{"turn_id": "t", "episode_id": "e", '
            '"principal": "u", "source": "TURN_SOURCE_CHAT"}\' '
            "http://sidecar/subagents.dispatch.v1.DispatchService/BindTurn"
        )
        (answer,) = documents(await output_of(script, environment(tmp_path, socket)))
        assert answer["surfaceToken"]


def test_an_answer_that_lacks_what_the_page_shows_is_caught() -> None:
    """Else the first test could pass on anything."""
    actual = {"a": [{"b": 1, "c": 2}], "d": "x"}
    assert shows(actual, {"a": [{"b": 1}]})
    lacking: list[Any] = [{"a": [{"b": 2}]}, {"a": []}, {"e": 1}, {"d": {"x": 1}}, {"a": [{"b": 1}, {"b": 1}]}]
    for wrong in lacking:
        assert not shows(actual, wrong)
    assert blocks("```sh\nx\n```\n```json\n{}{}\n```\n```sh\ny\n```\n") == [("x\n", [{}, {}]), ("y\n", [])]


@pytest.mark.parametrize("version", ["grpc-v1", "grpc-v1alpha"])
async def test_the_schema_is_told_in_both_versions_of_reflection(tmp_path: Path, version: str) -> None:
    """`buf curl` asks for the newer one first; here it may ask for one only."""
    async with running_sidecar_for_tests(reflection=True) as sidecar:
        socket = sidecar.dispatch_target.removeprefix("unix:")
        script = (
            'buf curl --protocol grpc --http2-prior-knowledge --unix-socket "$SOCKET" '
            f"--reflect-protocol {version} --reflect-header '*' "
            '--header "x-subagents-boot-secret: $(cat "$SECRET_FILE")" --data \'{"page_size": 1}\' '
            "http://sidecar/subagents.history.v1.HistoryService/ListTurns"
        )
        assert documents(await output_of(script, environment(tmp_path, socket))) == [{}]
