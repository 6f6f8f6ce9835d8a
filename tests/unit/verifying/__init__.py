"""What verifying says of alterations, word for word: auditors work from it."""
