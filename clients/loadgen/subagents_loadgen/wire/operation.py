"""The result of one operation."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Finished:
    """The result of one operation.

    Attributes:
        steps: name of each RPC to its duration in seconds, including failed RPCs.
        outcomes: outcomes of the calls, in emission order, e.g. `SUCCEEDED` or `FAILED ATTEMPT_TIMEOUT`.
        errors: RPCs that failed: the step, the status and the reason, e.g. `bind UNAVAILABLE DRAINING`.
        violations: promises of the contract that the server broke.
        kind: the kind of turn.
        target: address of the sidecar.
        ended: end of the measured part, by the loop's clock; None: the end of the operation.
    """

    steps: dict[str, float] = field(default_factory=dict)
    outcomes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    kind: str = ""
    target: str = ""
    ended: float | None = None
