"""Values of the conversations that are kept, and of scores. They import nothing else of the SDK."""
