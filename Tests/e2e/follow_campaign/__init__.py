"""The parts of `campaign_follow.py`: the world with its faults, the phases, the judge of the log, and the projection of feeds and mirrors."""
