"""What is known of a table: pure facts."""
