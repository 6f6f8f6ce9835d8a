"""What a plugin may implement, and how plugins are found, chosen and checked."""
