"""Everything that checks the whole; what checks one package of its own stands beside that package."""
