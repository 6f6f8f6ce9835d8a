"""The state of a turn, its dispatches and its children. Only this folder changes it."""
