"""The error for an impossible transition."""

from enum import Enum


class IllegalTransition(RuntimeError):
    """A defect of the sidecar: a state does not permit the requested transition. Nothing was changed."""

    def __init__(self, transition: str, stage: Enum) -> None:
        super().__init__(f"{transition} is not possible in the state {stage.name}")
