"""What one PostgreSQL carries: many sidecars over it, directly and through a pooler."""
