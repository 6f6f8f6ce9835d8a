"""The features that a client may require of a sidecar."""

from collections.abc import Sequence
from typing import Final

from sidecar.core.errors import FeatureUnsupported, FieldProblem, InvalidRequest

MOST_FEATURES: Final = 32
"""The most features that one request may require."""
LONGEST_FEATURE: Final = 60
"""Characters of the name of a feature."""


def require_features(required: Sequence[str], offered: Sequence[str], version: int, field: str) -> None:
    """Refuse a request that requires a feature that is not offered.

    Args:
        required: names of features, as the client sent them.
        offered: the features of the contract.
        version: of the contract.
        field: the field of the request, for the error.

    Raises:
        InvalidRequest: there are too many names, or a name that no feature can have.
        FeatureUnsupported: at least one feature is not offered; `metadata` names the missing and the offered ones.
    """
    # First, because the refusal below repeats the names.
    if len(required) > MOST_FEATURES or any(not 0 < len(each) <= LONGEST_FEATURE for each in required):
        problem = f"must be at most {MOST_FEATURES} names of 1 to {LONGEST_FEATURE} characters"
        raise InvalidRequest(f"{field} {problem}", fields=[FieldProblem(field, problem)])
    missing = sorted(set(required) - set(offered))
    if missing:
        raise FeatureUnsupported(
            f"this sidecar does not offer {', '.join(missing)}; do without, or use a sidecar that offers it",
            metadata={
                "missing": ",".join(missing),
                "offered": ",".join(offered),
                "contract_version": str(version),
            },
        )
