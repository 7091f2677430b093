"""Ways from a stack to depth, by name: see `registry`."""
