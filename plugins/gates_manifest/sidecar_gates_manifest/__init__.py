"""The gate client `manifest`: decides gates from the thresholds and recorded results in `evaluation_manifest.yaml`."""

from sidecar_gates_manifest.client import ManifestGates
from sidecar_gates_manifest.manifest import Manifest, ManifestProblem, manifest_in

__all__ = ["Manifest", "ManifestGates", "ManifestProblem", "manifest_in"]
