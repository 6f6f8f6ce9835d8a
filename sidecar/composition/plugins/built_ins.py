"""The plugins that come with the sidecar."""

from collections.abc import Sequence
from typing import Final

from sidecar.adapters import flags_embedded, flags_file, flags_memory, memory_in_process
from sidecar.adapters.connector_grpc import plugin as connector_grpc
from sidecar.adapters.connector_rest import plugin as connector_rest
from sidecar.adapters.runner_grpc import plugin as runner_grpc
from sidecar.composition.plugins import memory_store
from sidecar.observability.audit import plugin as audit_plugin
from sidecar.policy import platform

BUILT_INS: Final[Sequence[object]] = (
    flags_memory,
    flags_file,
    flags_embedded,
    runner_grpc,
    connector_rest,
    connector_grpc,
    memory_in_process,
    memory_store,
    platform,
    audit_plugin,
)
