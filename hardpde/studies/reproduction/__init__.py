"""The tables and figures of Liu et al. (NeurIPS 2022), one function `Work → Outcome` each."""
