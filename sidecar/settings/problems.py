"""The problems of the settings, reported together."""

from collections.abc import Sequence


class SettingsProblem(Exception):
    """The process cannot start with these settings; `sidecar serve` prints every line and exits with 78 (`EX_CONFIG`).

    Args:
        problems: one line each: the place (file and key, or variable), the problem, and what to do. No line contains a
            configured value, because it may be a secret.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)
