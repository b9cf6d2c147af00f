"""Starts, drives and stops the real programs: nothing here knows what a right answer is (see oracle/)."""
