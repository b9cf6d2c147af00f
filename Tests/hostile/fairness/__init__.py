"""One tenant at full speed against the others: what a victim in another namespace measures before and under each attack."""
