"""The parts of `campaign_mirrors.py`: the dice, the world with its faults, the contents of tables, and the comparison."""
