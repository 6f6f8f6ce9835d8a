"""The operations on a turn: bind, dispatch, delegate, end, restore, take over."""
