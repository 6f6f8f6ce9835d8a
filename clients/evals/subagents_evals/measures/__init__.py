"""What follows from trials: figures with their intervals, thresholds, comparisons, results for gates."""
