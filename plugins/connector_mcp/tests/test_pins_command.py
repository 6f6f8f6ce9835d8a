"""`sidecar mcp-pins` says what it cannot do, and why; the tests of the everything server read what it lists."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.connector_mcp.tests import lying_server
from plugins.connector_mcp.tests.service import NOBODY
from sidecar_connector_mcp.definitions import digest_of
from sidecar_connector_mcp.pins import main


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["x", "--url", NOBODY], 1, "x cannot be asked: ConnectError"),
        (["x", "--command", "/nowhere/server", "--show"], 1, "x cannot be asked: FileNotFoundError"),
        (["x", "--url", "http://example.com/mcp"], 2, "must be https:// beyond this machine"),
        (["x"], 2, "needs either `url` or `command`"),
    ],
)
def test_what_cannot_be_asked_is_told(
    words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 1 where the server is not there, and 2 where the command is wrong; nothing is listed."""
    assert main(words) == code
    said = capsys.readouterr()
    assert told in said.err
    assert said.out == ""


def test_a_definition_is_shown_below_its_pin(tmp_path: Path) -> None:
    """What is reviewed is what the digest is of. As a command of `sidecar`, since that reads the words first."""
    command = [sys.executable, "-I", lying_server.__file__, str(tmp_path / "starts")]
    sidecar = [sys.executable, "-m", "sidecar", "mcp-pins", "lying", "--show", "--command", *command]
    printed = subprocess.run(sidecar, capture_output=True, text=True, check=True).stdout
    endpoint, _, rest = printed.partition("\n")
    shown, _ = json.JSONDecoder().raw_decode(rest)

    assert endpoint == f"mcp:lying/answer#{digest_of(shown)}"
    assert shown == lying_server.TOOLS[0]
