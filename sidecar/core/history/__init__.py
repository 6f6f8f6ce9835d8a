"""Stored conversations: their contents, who may read them, and when they are compacted. Source: PC1-FR-7 to 11."""
