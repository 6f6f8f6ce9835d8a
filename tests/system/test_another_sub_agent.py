"""`sidecar subagent new`: the second sub-agent of a written repository is promoted like the first."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from sidecar.cli.init.repository import write_repository
from tests.support.typed_commands import free_port, typed_in

pytestmark = pytest.mark.system

SECONDS: Final = 120.0
SCRIPT: Final = """
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
set -e
sidecar subagent new city-weather
sidecar validate config --strict
python -m pytest -q
sidecar token key --key .run/operator
python data_service.py &
python travel_agent.py &
python city_weather_agent.py &
sidecar serve --config sidecar.toml 2> .run/sidecar.log &
until sidecar health --config sidecar.toml >/dev/null 2>&1; do kill -0 $!; done
until [ -S .run/city-weather.sock ]; do kill -0 %3; done
export SIDECAR_TARGET=unix:.run/operators/sidecar.sock
export SIDECAR_ROLE_TOKEN=$(sidecar token mint --key .run/operator --role operator \\
  --subject me@example --deployment local --for 1h)
python ask.py --sub-agent city-weather "Will it rain?" || echo too early
sidecar eval run config --record pre_merge
sidecar subagent promote city-weather --reason "routing measured"
sidecar eval run config --record pre_ramp --from 0 --to 99
sidecar subagent ramp city-weather 99 --reason "first users" --wait
python ask.py --sub-agent city-weather "Will it rain?"
"""


@pytest.mark.seconds(120)
def test_what_it_adds_is_promoted_and_answers() -> None:
    """With the commands of the first one; before the promotion it serves no user."""
    with TemporaryDirectory(prefix="new-") as parent:
        folder = write_repository("travel", Path(parent))
        port = free_port()
        for file in (folder / "data_service.py", folder / "config" / "agent_config.yaml"):
            file.write_text(file.read_text("utf-8").replace("8480", port), "utf-8")

        code, out = typed_in(folder, SCRIPT, SECONDS)

    assert code == 0, out
    for said in ("valid: 3 agents", "ask_city-weather is not offered to user-1", "too early", "done: promoted"):
        assert said in out
    assert out.endswith("ask_city-weather: succeeded\ncity-weather was asked: Will it rain?\n")
