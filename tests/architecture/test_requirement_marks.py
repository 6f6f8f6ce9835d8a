"""`@requirement(...)`: a wrong id cannot go unseen."""

import pytest

from tests.support.requirement import requirement


def test_the_mark_keeps_the_ids() -> None:
    """What a coverage test collects."""
    assert requirement("PC2-AC-4a", "PC2-FR-7c").mark.args == ("PC2-AC-4a", "PC2-FR-7c")


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        (("PC2-FR-999",), "not in the catalogue"),
        (("PC2-FR-7c", "PC2-FR-7C"), "PC2-FR-7C"),
        ((), "names 0"),
        (("PC2-FR-7c", "PC2-FR-7c"), "twice"),
        (("SX-1", "SX-2", "SX-3", "SX-4", "SX-5"), "names 5"),
    ],
)
def test_a_wrong_mark_fails_when_the_module_is_imported(ids: tuple[str, ...], complaint: str) -> None:
    """Unknown, misspelt, none, twice, too many."""
    with pytest.raises(ValueError, match=complaint):
        requirement(*ids)
