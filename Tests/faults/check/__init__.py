"""Checks of a history, the log and the database after a round. Pure functions: each returns the violations that it finds."""
