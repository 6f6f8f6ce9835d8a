"""The image: built from the Dockerfile as it stands, and run."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from socket import socket
from typing import Final

import pytest

from scripts.build_packages import build as package_built
from tests.support.container_image import (
    REPOSITORY,
    Container,
    ContainerTools,
    build,
    build_layer,
    locked_wheels,
    needs_debian,
)

BASE: Final = "localhost/sidecar-test-base"
IMAGE: Final = "localhost/sidecar-test"
LAYERED: Final = "localhost/sidecar-test-plugins"
SETTINGS: Final = """
[server]
ops_address = "127.0.0.1:{port}"
lame_duck = "0s"

[definitions]
path = "/etc/sidecar"

[dispatch]
fan_out_cap = 3

[rollout]
auto_promote_unflagged = true
"""
CHECKS: Final = 30
"""How often health is asked for; each time starts a process in the container, which takes about a second."""

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[ContainerTools]:
    """Buildah, with our image in its storage."""
    needs_debian()
    assert pytestconfig.cache is not None
    tools = ContainerTools.usable(tmp_path_factory.mktemp("containers"))
    try:
        tools.debian_image(BASE)
        build(tools, BASE, IMAGE, locked_wheels(pytestconfig.cache.mkdir("image-wheels")))
        yield tools
    finally:
        tools.remove()


@pytest.fixture(scope="module")
def container(tools: ContainerTools) -> Container:
    """A container of our image."""
    return Container(tools, tools.call("from", IMAGE).strip())


def test_the_image_runs_the_sidecar_as_a_plain_user(tools: ContainerTools) -> None:
    """What `docker run` would start, and as whom."""
    configuration = tools.configuration(IMAGE)
    assert configuration["Entrypoint"] == ["sidecar"]
    assert configuration["Cmd"] == ["serve", "--config", "/etc/sidecar/sidecar.toml"]
    assert configuration["User"] == "10001:10001"
    assert configuration["Healthcheck"]["Test"][:2] == ["CMD", "sidecar"]


def test_commands_in_the_image_have_no_rights(container: Container) -> None:
    """The user that runs is not root and may write its own folders only."""
    script = (
        "id -u; touch /run/sidecar/x /var/lib/sidecar/x && echo own; touch /opt/sidecar/x 2>/dev/null || echo refused"
    )
    assert container.output("sh", "-c", script).split() == ["10001", "own", "refused"]


def test_the_image_holds_what_the_sidecar_needs_and_no_more(container: Container) -> None:
    """Every extra, the gate clients and the webhook; no build tool, no tests; every dependency satisfied."""
    script = "import importlib.metadata as m; print(*sorted(d.name.lower() for d in m.distributions()))"
    installed = container.output("/opt/sidecar/bin/python", "-c", script).split()
    assert {"dispatch-sidecar", "subagents-proto", "grpcio"} <= set(installed)
    assert {"sidecar-audit-webhook", "sidecar-gates-http", "sidecar-gates-manifest"} <= set(installed)
    assert {"asyncpg", "opentelemetry-exporter-otlp-proto-grpc", "pyjwt", "starlette", "jinja2"} <= set(installed)
    assert {"hatchling", "pytest", "pip"}.isdisjoint(installed)


def test_the_command_line_answers_in_the_image(container: Container) -> None:
    """`sidecar --help` imports everything the command line needs."""
    assert "serve" in container.output("sidecar", "--help")


def test_a_layer_adds_the_plugins_of_a_vertical(tools: ContainerTools, tmp_path: Path) -> None:
    """From their wheels alone; the sidecar of the new image finds them, and still runs as a plain user."""
    shutil.copytree(REPOSITORY / "examples" / "plugin-image", tmp_path / "image")
    made = (sys.executable, "-m", "sidecar", "plugins", "new", "gate-client", "acme-gates", "--dir", str(tmp_path))
    subprocess.run(made, check=True, timeout=300)
    wheels = tmp_path / "image" / "wheels"
    wheels.mkdir()
    shutil.copy(package_built(tmp_path / "acme-gates", tmp_path)[1], wheels)

    build_layer(tools, tmp_path / "image", LAYERED, {"SIDECAR": IMAGE, "PLUGINS": "acme-gates"})

    layered = Container(tools, tools.call("from", LAYERED).strip())
    assert "acme-gates" in layered.output("sidecar", "plugins", "list")
    assert tools.configuration(LAYERED)["User"] == "10001:10001"


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    """The example definitions with settings for them, on a free port, as a folder that the image's user can read."""
    folder = tmp_path / "etc"
    shutil.copytree(REPOSITORY / "examples" / "config", folder)
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = SETTINGS.format(port=port)
    (folder / "sidecar.toml").write_text(text, encoding="utf-8")
    return folder


def test_the_image_serves_turns_healthy_and_drains(tools: ContainerTools, container: Container, settings: Path) -> None:
    """Its own command, on the example definitions; its own health check says when; SIGTERM ends it with 0."""
    configuration = tools.configuration(IMAGE)
    command = [*configuration["Entrypoint"], *configuration["Cmd"]]
    is_healthy = configuration["Healthcheck"]["Test"][1:]
    mounts = {settings: "/etc/sidecar"}
    assert not container.succeeds(*is_healthy, mounts=mounts)
    with container.running(*command, mounts=mounts) as sidecar:
        healthy = any(container.succeeds(*is_healthy, mounts=mounts) for _ in range(CHECKS) if sidecar.is_running())
        if sidecar.is_running():
            sidecar.signal(signal.SIGTERM)
        code, printed = sidecar.ended(60)
    assert (healthy, code) == (True, 0), printed
    assert not container.succeeds(*is_healthy, mounts=mounts)
