"""What the first fact of a dispatch says: claims, request, and the contracts of the children that start."""
