"""Words that name a choice, on the command line and in Python alike."""

PRESETS = ("quick", "paper", "best")
SCHEDULES = ("fair", "as-published")
SOLVERS = ("auto", "direct", "march", "train")
