"""The calls of one model response: cap, intents, order, outcomes, and the record of what was routed (PC2)."""
