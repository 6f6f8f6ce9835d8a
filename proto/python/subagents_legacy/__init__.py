"""What the classifier path left behind, read once and never written again. Standard library only.

The sidecar's backfill and the SDK take legacy texts apart by the same code.
"""

from subagents_legacy.markers import Damage, Defect, Marker, SplitText, split_markers

__all__ = ["Damage", "Defect", "Marker", "SplitText", "split_markers"]
