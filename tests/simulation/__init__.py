"""The operations in a made-up world, thousands of times over."""
