"""Networks, and their values and derivatives at many points."""
