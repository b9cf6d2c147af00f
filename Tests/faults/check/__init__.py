"""What must hold of a history, the log and the database afterwards. Pure functions: each says what it finds wrong."""
