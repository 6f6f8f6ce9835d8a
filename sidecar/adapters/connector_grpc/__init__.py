"""Connector `grpc`: one `EnricherService.Enrich` for each enricher call. Source: PC2-D-22."""

from sidecar.adapters.connector_grpc.connector import GrpcConnector
from sidecar.adapters.connector_grpc.settings import GrpcConnectorSettings

__all__ = ["GrpcConnector", "GrpcConnectorSettings"]
