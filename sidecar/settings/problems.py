"""The problems of the settings, reported together."""

from collections.abc import Sequence


class SettingsProblem(Exception):
    """The process cannot start with these settings; `sidecar serve` prints every line and exits with 78 (`EX_CONFIG`).

    Args:
        problems: each one line: where (file and key, or variable), what, and what to do. No value is repeated in them,
            since it may be a secret.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
