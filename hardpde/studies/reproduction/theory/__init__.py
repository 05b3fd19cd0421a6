"""What the paper proves and assumes, measured: a file for each claim, and the list of them."""
