"""One tenant at full speed against the others: measures a victim in another namespace before and during each attack."""
