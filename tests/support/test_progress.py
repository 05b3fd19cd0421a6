"""Steps are counted through all stages, and a line on a terminal says how far a training is."""

from hardpde.support.progress import Progress, total_steps


def test_steps_are_counted_through_the_stages():
    steps, borders = total_steps({"step": [10, 20, 5, 10], "stage": ["adam", "adam", "lbfgs", "lbfgs"]})
    assert steps.tolist() == [10, 20, 25, 30] and borders == [(0, "adam"), (20, "lbfgs")]
    steps, borders = total_steps({"step": [10, 20, 10], "stage": ["a", "a", "a"]})
    assert steps.tolist() == [10, 20, 30] and borders == [(0, "a"), (20, "a")]
    steps, borders = total_steps({"step": [5, 10, 10, 10], "stage": ["a"] * 4, "seconds": [1.0, 1.5, 1.5, 2.0]})
    assert steps.tolist() == [5, 10, 10, 20] and borders == [(0, "a"), (10, "a")]  # one record is of weights kept
    steps, borders = total_steps({"step": []})
    assert steps.tolist() == [] and borders == []


class Terminal:
    """A stream that claims to be a terminal, or not."""

    def __init__(self, tty):
        self.text, self.tty = "", tty

    def isatty(self):
        return self.tty

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def record(stage, step, steps):
    return {"stage": stage, "step": step, "steps": steps, "loss": 1.0, "held_out": 2.0, "seconds": 65.0}


def test_progress_on_a_terminal_is_one_line_for_a_stage():
    stream = Terminal(True)
    progress = Progress([{"optimiser": "adam", "steps": 4}, {"optimiser": "lbfgs", "steps": 6}], stream)
    for step in (2, 4):
        progress(record("adam", step, 4))
    progress(record("lbfgs", 3, 6))
    progress.close()
    lines = stream.text.split("\n")
    assert len(lines) == 3 and lines[-1] == ""
    assert "loss 1.00e+00  held-out 2.00e+00  1:05" in lines[0]
    assert lines[1].count("█") == 14  # 7 of 10 steps


def test_progress_of_a_resumed_run_counts_the_stages_before():
    stream = Terminal(False)
    progress = Progress([{"optimiser": "adam", "steps": 50}, {"optimiser": "lbfgs", "steps": 50}], stream)
    progress(record("lbfgs", 25, 50))
    assert stream.text.count("█") == 15
    progress(record("lbfgs", 25, 50))  # a loss that was not finite: no step was taken
    progress(record("lbfgs", 50, 50))
    assert stream.text.splitlines()[-1].count("█") == 20
