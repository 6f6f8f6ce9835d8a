"""What `sidecar subagent decommission` asks about a checkout of the configuration repository, which it only reads."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sidecar.core.rollout.checkout_inspection import CheckoutReport, CleanupPatch, DecommissionPatchRequest


@dataclass(frozen=True, slots=True)
class Checkouts:
    """The two queries; each can raise `CheckoutRefused`.

    Attributes:
        patch: writes the change that some steps need; the path is that of the folder with `agent_config.yaml`.
        look: returns what is left to do for some steps.
    """

    patch: Callable[[Path, DecommissionPatchRequest], CleanupPatch]
    look: Callable[[Path, DecommissionPatchRequest], CheckoutReport]
