"""RAWThink's core: the contract and everything that is neither storage nor transport."""
