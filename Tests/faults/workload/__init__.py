"""Clients that write, read and listen during faults, and record the answers."""
