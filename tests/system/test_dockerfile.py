"""The image: built from the Dockerfile as it stands, and run."""

import signal
from collections.abc import Iterator
from typing import Final

import pytest

from tests.support.container_image import REPOSITORY, Container, ContainerTools, build, debian_base

BASE: Final = "localhost/sidecar-test-base"
IMAGE: Final = "localhost/sidecar-test"
CHECKS: Final = 30
"""How often health is asked for; each time starts a process in the container, which takes about a second."""

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerTools]:
    """Buildah, with our image in its storage."""
    base = debian_base()
    tools = ContainerTools(tmp_path_factory.mktemp("containers"))
    try:
        tools.image_from(base, BASE)
        build(tools, BASE, IMAGE, tmp_path_factory.mktemp("pip") / "pip.conf")
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
    """No build tool, no demo service, no tests; every dependency satisfied."""
    script = "import importlib.metadata as m; print(*sorted(d.name.lower() for d in m.distributions()))"
    installed = container.output("/opt/sidecar/bin/python", "-c", script).split()
    assert {"dispatch-sidecar", "subagents-proto", "grpcio"} <= set(installed)
    assert {"hatchling", "starlette", "uvicorn", "pytest", "pip"}.isdisjoint(installed)


def test_the_command_line_answers_in_the_image(container: Container) -> None:
    """`sidecar --help` imports everything the command line needs."""
    assert "serve" in container.output("sidecar", "--help")


def test_the_image_serves_turns_healthy_and_drains(tools: ContainerTools, container: Container) -> None:
    """Its own command, on the example configuration; its own health check says when; SIGTERM ends it with 0."""
    configuration = tools.configuration(IMAGE)
    command = [*configuration["Entrypoint"], *configuration["Cmd"]]
    is_healthy = configuration["Healthcheck"]["Test"][1:]
    mounts = {REPOSITORY / "examples" / "config": "/etc/sidecar"}
    with container.running(*command, mounts=mounts) as sidecar:
        for _ in range(CHECKS):
            if container.succeeds(*is_healthy, mounts=mounts) or not sidecar.is_running():
                break
        healthy = sidecar.is_running() and container.succeeds(*is_healthy, mounts=mounts)
        if sidecar.is_running():
            sidecar.signal(signal.SIGTERM)
        code, printed = sidecar.ended(60)
    assert (healthy, code) == (True, 0), printed
    assert not container.succeeds(*is_healthy, mounts=mounts)
