"""`sidecar token mint --config`: a token that the sidecar would refuse for its key is not minted."""

from pathlib import Path

import pytest

from tests.cli.test_token import mint, run

SETTINGS = """\
[definitions]
path = "config"

[dispatch]
fan_out_cap = 3

[operators]
deployment = "shop"

[operators.key.watchdog]
file = "{folder}/watchdog.pub"
roles = ["{role}"]
subjects = ["{subject}"]
"""


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A key, with its public half beside it."""
    file = tmp_path / "watchdog"
    run("key", "--key", str(file))
    return file


def settings(folder: Path, *, role: str = "breaker", subject: str = "ada@example") -> str:
    """Write settings of a sidecar that takes the key for a role and a subject."""
    file = folder / "sidecar.toml"
    file.write_text(SETTINGS.format(folder=folder, role=role, subject=subject))
    return str(file)


def test_what_the_key_is_for_is_minted(tmp_path: Path, key: Path) -> None:
    """`mint` asks for a breaker, as ada@example."""
    code, token = mint(key, "--config", settings(tmp_path, subject="*@example"))

    assert (code, token[:4]) == (0, "rt1.")


@pytest.mark.parametrize(
    ("allowed", "says"),
    [
        ({"role": "viewer"}, "the key watchdog is for viewer as ada@example"),
        ({"subject": "watchdog@ci"}, "the key watchdog is for breaker as watchdog@ci"),
    ],
)
def test_what_the_key_is_not_for_is_not_minted(tmp_path: Path, key: Path, allowed: dict[str, str], says: str) -> None:
    """Exit code 64, and what it is for."""
    code, output = mint(key, "--config", settings(tmp_path, **allowed))

    assert code == 64
    assert says in output
    assert "not for breaker as ada@example" in output


def test_a_key_that_the_sidecar_does_not_know_mints_nothing_for_it(tmp_path: Path, key: Path) -> None:
    """Exit code 64; settings that are no settings are 78."""
    file = settings(tmp_path)
    other = tmp_path / "other"
    run("key", "--key", str(other))
    unknown = mint(other, "--config", file)
    unreadable = mint(key, "--config", str(tmp_path / "absent.toml"))

    assert (unknown[0], unreadable[0]) == (64, 78)
    assert "does not name the key" in unknown[1]
