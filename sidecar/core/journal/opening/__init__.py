"""The first fact of a dispatch: claims, request, and the contracts of the children that start."""
