"""Results computed from trials: figures with intervals, thresholds, comparisons, and results for gates."""
