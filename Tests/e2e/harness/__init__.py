"""Starts, drives and stops the real programs. The expected answers are in oracle/."""
