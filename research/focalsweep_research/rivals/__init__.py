"""The methods we stand beside, called like ours: see `methods`."""
