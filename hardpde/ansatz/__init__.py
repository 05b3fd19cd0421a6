"""How the outputs of networks become a state that satisfies the conditions."""
