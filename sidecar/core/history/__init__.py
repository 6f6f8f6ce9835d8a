"""What is kept of a conversation, who may see what of it, and when it is to be compacted. Source: PC1-FR-7 to 11."""
