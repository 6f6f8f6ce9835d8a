"""`examples/compose`: valid, locked down, and consistent with the settings, defaults and files that it names."""

import json
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any, Final

import jsonschema_rs
import pytest
import yaml

from examples.compose import consumer
from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.core.definitions.files.addresses import problem_with_target
from sidecar.settings.reading import read_settings
from sidecar.settings.settings import Settings
from tests.documents.blocks import blocks
from tests.support.named_skips import needs_tool

FOLDER: Final = Path(__file__).parents[2] / "examples" / "compose"
SCHEMA: Final = Path(__file__).with_name("compose.schema.json")
NO_HEALTH: Final = {"migrate", "collector", "data", "consumer"}
"""One ends, one has no program in its image that could ask, and on the last two nothing waits."""


def compose() -> dict[str, Any]:
    """Return the file."""
    loaded: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def services() -> dict[str, dict[str, Any]]:
    """Return the services by name."""
    found: dict[str, dict[str, Any]] = compose()["services"]
    return found


def problems(document: Any) -> list[str]:
    """Return what the schema says of a Compose file."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(document)]


@pytest.fixture
def settings() -> Settings:
    """Return the sidecar's settings, read as `sidecar serve` reads them."""
    return read_settings(FOLDER / "sidecar.toml", {})


def test_the_file_is_valid_and_a_misspelt_key_is_found() -> None:
    """By the part of the specification that it uses."""
    wrong = compose()
    wrong["services"]["sidecar"]["helthcheck"] = {}
    assert problems(compose()) == []
    assert problems(wrong) != []


def mounts(service: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    """Return what a service mounts, by the place in the container: source, and whether it may write."""
    parts = [each.split(":") for each in service.get("volumes", [])]
    return {part[1]: (part[0], part[2:] != ["ro"]) for part in parts}


def test_what_is_mounted_is_there_and_each_name_is_declared() -> None:
    """Files of the repository, read-only; volumes and secrets that the file declares; each of those is used."""
    used_volumes: set[str] = set()
    used_secrets: set[str] = set()
    for service in services().values():
        used_secrets |= set(service.get("secrets", []))
        for source, writable in mounts(service).values():
            if source.startswith("."):
                assert (FOLDER / source).exists(), source
                assert not writable, source
            else:
                used_volumes.add(source)
        if "build" in service:
            context = FOLDER / service["build"]["context"]
            assert (context / service["build"].get("dockerfile", "Dockerfile")).is_file()
    assert used_volumes == set(compose()["volumes"])
    assert used_secrets == set(compose()["secrets"])


def test_no_service_has_more_rights_than_it_needs() -> None:
    """A plain user, a read-only root, no capabilities, a pinned image, ports on loopback, a check of health."""
    for name, service in services().items():
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert int(service["user"].partition(":")[0]) > 0, name
        assert re.search(r":v?\d+\.\d+(\.\d+)?(-\w+)?$", service["image"]), name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert ("healthcheck" in service) == (name not in NO_HEALTH), name
        assert all("password" not in key.lower() or "_FILE" in key for key in service.get("environment", {})), name


def test_secrets_and_paths_of_the_settings_lie_where_the_sidecar_sees_them(settings: Settings) -> None:
    """What it reads is a secret that it is given or a read-only mount; what it writes is a volume."""
    sidecar, record = services()["sidecar"], settings.record
    read = [record.postgresql.dsn_file, record.checkpoints.key_file, *settings.keys.files.values()]
    read += settings.operators.keys
    given = {f"/run/secrets/{name}" for name in sidecar["secrets"]}
    assert {str(file) for file in read} == given
    assert mounts(sidecar)[str(settings.definitions.path)] == ("../config", False)
    writes = (
        settings.server.dispatch_socket,
        settings.server.agents_socket,
        settings.server.boot_secret_file,
        settings.operators.socket,
        settings.rollout.tombstone_file,
        record.checkpoints.file,
    )
    for path in writes:
        volume = next(str(each) for each in PurePosixPath(str(path)).parents if str(each) in mounts(sidecar))
        assert mounts(sidecar)[volume][1], path
    assert services()["migrate"]["secrets"] == ["record-dsn"]


def test_addresses_and_ports_are_those_that_are_served(settings: Settings) -> None:
    """Metrics, OTLP, sub-agents, data service and consumer-agent."""
    port = settings.server.ops_address.rpartition(":")[2]
    scraped = yaml.safe_load((FOLDER / "prometheus.yml").read_text(encoding="utf-8"))
    collector = yaml.safe_load((FOLDER / "collector.yaml").read_text(encoding="utf-8"))
    (targets,) = (each["static_configs"][0]["targets"] for each in scraped["scrape_configs"])
    otlp = collector["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"].rpartition(":")[2]

    assert targets == [f"sidecar:{port}"]
    assert services()["sidecar"]["ports"] == [f"127.0.0.1:{port}:{port}"]
    assert settings.telemetry.otlp_endpoint == f"http://collector:{otlp}"
    for slot, target in settings.targets.slots.items():
        assert problem_with_target(target) is None
        assert services()[slot]["command"][-2:] == ["--listen", target]
        assert services()[slot]["healthcheck"]["test"] == ["CMD", "test", "-S", target.removeprefix("unix:")]
    config = (FOLDER / "../config/agent_config.yaml").read_text(encoding="utf-8")
    data = services()["data"]
    assert (data["network_mode"], f"http://127.0.0.1:{data['command'][-1]}/" in config) == ("service:sidecar", True)
    assert settings.server.dispatch_socket == consumer.SOCKET
    assert {f"ask_{slot}" for slot in settings.targets.slots} >= {name for turn in consumer.ASKED for name, _ in turn}
    assert load_directory(FOLDER / "../config").errors == ()


def test_a_stop_takes_no_longer_than_it_may(settings: Settings) -> None:
    """What has not ended by then is killed."""
    grace = timedelta(seconds=int(services()["sidecar"]["stop_grace_period"].removesuffix("s")))
    assert grace > settings.server.lame_duck + settings.server.drain_grace


def test_prometheus_can_read_its_configuration_and_rules(tmp_path: Path) -> None:
    """As they lie in the container, with promtool."""
    promtool = needs_tool("promtool", package="prometheus")
    for place, (source, _) in mounts(services()["prometheus"]).items():
        if place.startswith("/etc/prometheus/"):
            shutil.copy(FOLDER / source, tmp_path / Path(place).name)
    command = [promtool, "check", "config", "prometheus.yml"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert (ran.returncode, "1 rule files found" in ran.stdout) == (0, True), ran.stdout + ran.stderr


def test_grafana_finds_its_source_and_its_dashboards() -> None:
    """Both are provisioned, and the dashboards are those of `examples/dashboards`."""
    (source,) = yaml.safe_load((FOLDER / "grafana" / "datasource.yaml").read_text(encoding="utf-8"))["datasources"]
    (provider,) = yaml.safe_load((FOLDER / "grafana" / "dashboards.yaml").read_text(encoding="utf-8"))["providers"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    assert mounts(services()["grafana"])[provider["options"]["path"]] == ("../dashboards", False)


def test_the_commands_of_the_page_create_every_secret(tmp_path: Path) -> None:
    """And the database is asked with the password that PostgreSQL has."""
    (making,) = (each for each in blocks() if each.page == "docs/compose.md" and "openssl" in each.text)
    lines = "\n".join(line for line in making.text.splitlines() if "chown" not in line and not line.startswith("cd "))
    ran = subprocess.run(["bash", "-e"], input=lines, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for secret in compose()["secrets"].values():
        assert (tmp_path / secret["file"]).stat().st_size > 0, secret
    password = (tmp_path / "secrets" / "postgres-password").read_text().strip()
    dsn = f"postgresql://sidecar:{password}@postgres:5432/sidecar"
    assert (tmp_path / "secrets" / "record-dsn").read_text() == dsn
    assert "chown" in making.text
