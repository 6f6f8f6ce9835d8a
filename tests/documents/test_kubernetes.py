"""The manifests of `examples/kubernetes`: valid, and consistent with the settings that they hold."""

import copy
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml

from sidecar.settings.reading import read_settings
from sidecar.settings.settings import Settings

FOLDER: Final = Path(__file__).parents[2] / "examples" / "kubernetes"
VERSIONS: Final = ("1.29", "1.37")
"""The oldest that starts native sidecars by default, and the newest that the validator knows."""
OPERATORS_OWN: Final = {"PodMonitor"}
"""Kinds of the Prometheus Operator, whose schema is not Kubernetes'."""


def documents() -> list[dict[str, Any]]:
    """Return every resource of every file."""
    return [document for file in sorted(FOLDER.glob("*.yaml")) for document in yaml.safe_load_all(file.read_text())]


def one(kind: str) -> dict[str, Any]:
    """Return the only resource of a kind."""
    (found,) = (document for document in documents() if document["kind"] == kind)
    return found


def pod() -> dict[str, Any]:
    """Return the pod's specification."""
    specification: dict[str, Any] = one("StatefulSet")["spec"]["template"]["spec"]
    return specification


def sidecar() -> dict[str, Any]:
    """Return the sidecar's container."""
    (found,) = (container for container in pod()["initContainers"] if container["name"] == "sidecar")
    return dict(found)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return the settings of the ConfigMap, read as `sidecar serve` reads them."""
    file = tmp_path / "sidecar.toml"
    file.write_text(one("ConfigMap")["data"]["sidecar.toml"])
    return read_settings(file, {})


@pytest.mark.parametrize("version", VERSIONS)
def test_each_resource_is_valid(version: str) -> None:
    """By the schemas of Kubernetes itself, without unknown fields."""
    for document in documents():
        if document["kind"] not in OPERATORS_OWN:
            kubernetes_validate.validate(document, version, strict=True)


def test_a_misspelt_field_is_found() -> None:
    """The validation can fail."""
    wrong = copy.deepcopy(one("StatefulSet"))
    wrong["spec"]["template"]["spec"]["initContainers"][1]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


def test_probes_and_metrics_are_asked_where_the_settings_serve_them(settings: Settings) -> None:
    """One port, which is not on loopback, and paths that the ops address has."""
    host, _, port = settings.server.ops_address.rpartition(":")
    (served,) = sidecar()["ports"]
    probes = [sidecar()[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")]
    (scraped,) = one("PodMonitor")["spec"]["podMetricsEndpoints"]

    assert (host, int(port)) == ("0.0.0.0", served["containerPort"])
    assert {(probe["path"], probe["port"]) for probe in probes} == {("/readyz", "ops"), ("/healthz", "ops")}
    assert (scraped["path"], scraped["port"]) == ("/metrics", served["name"])


def test_a_pod_has_more_time_to_stop_than_the_sidecar_takes(settings: Settings) -> None:
    """Kubernetes kills what has not ended by then."""
    longest = settings.server.lame_duck + settings.server.drain_grace
    assert timedelta(seconds=pod()["terminationGracePeriodSeconds"]) > longest


def written_or_read(settings: Settings) -> Iterator[tuple[str, bool]]:
    """Yield each path that the sidecar uses, and whether it writes there."""
    record = settings.record
    yield str(settings.server.dispatch_socket), True
    yield str(settings.server.agents_socket), True
    yield from ((str(group.agents_socket), True) for group in settings.server.host_groups.values())
    yield str(settings.server.boot_secret_file), True
    yield str(settings.operators.socket), True
    yield str(settings.rollout.tombstone_file), True
    yield str(record.checkpoints.file), True
    yield str(record.checkpoints.key_file), False
    yield str(record.postgresql.dsn_file), False
    yield str(settings.definitions.path), False
    yield from ((str(file), False) for file in settings.keys.files.values())


def test_every_path_of_the_settings_lies_in_a_volume(settings: Settings) -> None:
    """The root of the container is read-only: what is written needs a volume that can be written."""
    writable = {mount["mountPath"]: not mount.get("readOnly", False) for mount in sidecar()["volumeMounts"]}
    for path, written in written_or_read(settings):
        volume = next((str(each) for each in PurePosixPath(path).parents if str(each) in writable), path)
        assert volume in writable, f"{path} lies in no volume"
        assert writable[volume] or not written, f"{path} is written, and {volume} is read-only"


def test_no_container_has_more_rights_than_it_needs() -> None:
    """A plain user, no capabilities, a read-only root, no token of the cluster."""
    containers = [*pod()["initContainers"], *pod()["containers"]]
    locked = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}

    own = {"runAsUser": 10011, "runAsGroup": 10011}
    of_hosts = [locked | own if container["name"] == "shop" else locked for container in containers]
    assert [container["securityContext"] for container in containers] == of_hosts
    assert (pod()["securityContext"]["runAsNonRoot"], pod()["automountServiceAccountToken"]) == (True, False)
    assert sidecar()["restartPolicy"] == "Always"


def test_a_runner_host_has_a_user_of_its_own_and_only_the_volume_of_its_group(settings: Settings) -> None:
    """The volume is mounted at the same path in the sidecar and in this host, and nowhere else."""
    ((name, group),) = settings.server.host_groups.items()
    (host,) = (each for each in pod()["containers"] if each["name"] == name)
    (volume,) = host["volumeMounts"]
    assert PurePosixPath(volume["mountPath"]) in PurePosixPath(group.directory).parents
    assert settings.targets.slots[name] == f"unix:{group.directory}/hosts/{name}.sock"
    assert volume in sidecar()["volumeMounts"]
    others = [
        each for each in (*pod()["initContainers"], *pod()["containers"]) if each["name"] not in {name, "sidecar"}
    ]
    assert [each["name"] for each in others if volume in each["volumeMounts"]] == []
    security = pod()["securityContext"]
    assert (host["securityContext"]["runAsUser"] != security["runAsUser"], group.group) == (
        True,
        str(security["fsGroup"]),
    )


def test_the_job_of_the_schema_is_locked_down_and_has_the_settings_of_the_pod(settings: Settings) -> None:
    """It reads the address of the database where the settings name it, with the password of the owner."""
    job = one("Job")["spec"]["template"]["spec"]
    containers = [*job["initContainers"], *job["containers"]]
    mounted = {mount["name"]: mount["mountPath"] for mount in job["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in job["volumes"]}

    locked = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert [container["securityContext"] for container in containers] == [locked, locked]
    assert job["securityContext"] == pod()["securityContext"]
    assert volumes["settings"] in pod()["volumes"]
    assert volumes["secret"]["secret"]["secretName"] == "sidecar-schema-owner"
    address = settings.record.postgresql.dsn_file
    assert address is not None
    assert mounted["keys"] == str(address.parent)
