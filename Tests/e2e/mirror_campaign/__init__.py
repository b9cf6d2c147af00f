"""What `campaign_mirrors.py` is made of: the dice, the world that breaks, what is found in tables, and the comparison."""
