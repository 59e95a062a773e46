"""What tidelog cat prints: which records, in which form, and those that follow."""
