"""What one operation came to."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Finished:
    """What one operation came to.

    Attributes:
        steps: how long each RPC of it took from its sending, in seconds, by name; those that failed too.
        outcomes: of its calls, in order, e.g. `SUCCEEDED` or `FAILED ATTEMPT_TIMEOUT`.
        errors: RPCs that failed: the step, the status and the reason, e.g. `bind UNAVAILABLE DRAINING`.
        violations: promises of the contract that the server broke.
        kind: the kind of turn.
        target: address of the sidecar.
        ended: when the measured part ended, by the loop's clock; None: at the end of everything.
    """

    steps: dict[str, float] = field(default_factory=dict)
    outcomes: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    kind: str = ""
    target: str = ""
    ended: float | None = None
