"""`sidecar completion`: shells complete commands and options."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sidecar.cli.completion import VARIABLE, add_completion

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_is_given_a_script_that_asks_the_command(shell: str) -> None:
    """Through the variable that the command looks at."""
    app = typer.Typer()
    app.callback()(lambda: None)
    add_completion(app)
    made = CliRunner().invoke(app, ["completion", shell])
    assert (made.exit_code, f"{VARIABLE}=complete_{shell}" in made.output) == (0, True)


@pytest.mark.system
@pytest.mark.real_start
def test_a_real_bash_completes_a_command_below_another(tmp_path: Path) -> None:
    """It sources the script and asks for what begins with `li`."""
    command = tmp_path / "sidecar"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sidecar "$@"\n')
    command.chmod(0o700)
    asks = """
        source <(sidecar completion bash)
        COMP_WORDS=(sidecar subagent li) COMP_CWORD=2
        _sidecar_completion sidecar
        echo "${COMPREPLY[@]}"
    """
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    asked = ["bash", "-c", asks]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT, env=path)
    assert (done.stdout, done.stderr) == ("list\n", "")
