"""The objects that are built before everything else, and the replacements that tests pass in."""

from collections.abc import Sequence

from msgspec import Struct, field

from sidecar.adapters.system import (
    OwnedTasks,
    SystemClock,
    SystemIds,
    SystemRandomness,
)
from sidecar.composition.telemetry.background_reports import (
    DefectReports,
)
from sidecar.composition.telemetry.collector import Telemetry
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.observability.redaction import Redactor
from sidecar.operations.ports import Clock, Ids, Randomness, Recorder
from sidecar.rpc.in_flight import InFlight
from sidecar.settings import Settings


class Overrides(Struct, frozen=True, kw_only=True):
    """Replacements that a test passes in."""

    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=SystemIds)
    chance: Randomness = field(default_factory=SystemRandomness)
    plugins: Sequence[object] = ()
    metrics_age: float = 1.0
    """Seconds for which `/metrics` returns the same page again."""


class Components(Struct, frozen=True):
    """The objects that are built before anything listens."""

    settings: Settings
    replaced: Overrides
    redactor: Redactor
    metrics: Metrics
    readiness: Readiness
    recorder: Recorder
    tasks: OwnedTasks
    defects: DefectReports
    in_flight: InFlight
    telemetry: Telemetry
    plugin_modules: dict[str, str] = field(default_factory=dict)
    """Distributions of installed plugins by their top-level module; empty until they are loaded."""
