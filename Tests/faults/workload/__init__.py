"""Clients that write, read and listen while faults happen, and remember what they were told."""
