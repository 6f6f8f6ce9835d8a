"""What a caller can do with a turn: bind, dispatch, delegate, end, restore, take over."""
