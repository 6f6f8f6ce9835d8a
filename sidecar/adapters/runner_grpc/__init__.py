"""Runner `grpc`: any host that serves `SubAgentRunnerService`."""

from sidecar.adapters.runner_grpc.runner import GrpcRunner
from sidecar.adapters.runner_grpc.settings import GrpcRunnerSettings

__all__ = ["GrpcRunner", "GrpcRunnerSettings"]
