"""Connector `rest`: one POST of JSON for each enricher call. Source: PC2-D-22."""

from sidecar.adapters.connector_rest.connector import RestConnector
from sidecar.adapters.connector_rest.endpoints import problem_with_endpoint
from sidecar.adapters.connector_rest.settings import RestSettings

__all__ = ["RestConnector", "RestSettings", "problem_with_endpoint"]
