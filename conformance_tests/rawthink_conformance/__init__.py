"""The conformance suite: proves that a provider keeps the contract, and runs for anyone."""
