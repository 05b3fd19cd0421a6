"""Several methods with several seeds: intervals by hand, tables, figures and a page that says everything."""

import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import hardpde  # noqa: F401  (float64)
from hardpde.evaluation.figures.convergence import convergence_plot
from hardpde.evaluation.figures.error_bars import error_bars
from hardpde.evaluation.report import comparison
from hardpde.evaluation.report.comparison import write_comparison
from hardpde.evaluation.report.comparison_tables import headline, markdown
from hardpde.evaluation.statistics import SHOWN, interval, number_text, statistic, statistic_text, summarise

pytestmark = pytest.mark.usefixtures("quick_compilation")

METHODS = {  # the size of the error
    "exact": 1.4e-7, "hc": 0.0244, "pinn": 0.31, "la_pinn": 0.12, "fbpinn": 0.08, "mfn": 0.05, "xpinn": 0.21,
    "adaptive_pinn_with_a_long_name": 0.0051, "deep_ritz": 0.033, "pfnn": 0.021,
}
TIMES = [0.0, 0.25, 0.5, 0.75, 1.0]
SENTENCE = "there is no energy whose minimum solves 'r <= 1 | t > 0'"
REFUSED = [{"method": "pfnn_2", "why": SENTENCE}]


def made_metrics(size, timed=True, broken=False):
    keys = {"mae": 1.0, "mape": 2.5, "wmape": 2.2, "relative_l2": 3.0, "max": 20.0}
    row = {key: None if broken else factor * size for key, factor in keys.items()}
    if timed:
        row["by_time"] = [{"time": t, **{k: None if broken else v * (0.1 + t) for k, v in row.items()}} for t in TIMES]
    return row


def made_history(rng, energy, broken, slow):
    rows, seconds = [], 8.0 * slow
    middle = slow / 2 - 2
    for stage, steps, count, start, end in (("adam", 5000, 25, 1.0, middle), ("lbfgs", 3000, 15, middle, slow - 6)):
        for k in range(1, count + 1):
            seconds += slow * (0.2 if stage == "adam" else 0.6)
            loss = 10 ** (start + (end - start) * k / count + 0.1 * rng.standard_normal())
            held = 1.3 * loss - 2.0 if energy else 1.3 * loss
            lost = broken and stage == "lbfgs" and k > 8
            rows.append({"stage": stage, "step": steps * k // count, "steps": steps, "loss": math.nan if lost else loss,
                         "held_out": math.nan if lost else held, "seconds": seconds})
    return rows


def made_record(method, size, number=0, seeds=5, timed=True, components=("T", "grad_T[0]", "grad_T[1]")):
    rng = np.random.default_rng(number)
    runs = []
    for seed in range(seeds):
        broken = method == "pinn" and seed == 3
        factor = 1 + 0.1 * rng.standard_normal()
        why = "the loss was not finite at step 1,601; the last good weights were kept"
        runs.append({
            "seed": seed,
            "errors": {name: made_metrics(size * factor * (1 + k), timed, broken) for k, name in enumerate(components)},
            "boundary_violation": 3e-15 * factor if size < 0.03 else 3e-3 * factor,
            "loss": math.nan if broken else 1e-3, "held_out": math.inf if broken else 1.3e-3 * factor,
            "residual": None if broken else 1.2e-3 * factor,
            "endings": [{"stage": "adam", "steps": 5000, "why": "all 5000 steps were taken"},
                        {"stage": "lbfgs", "steps": 1600 if broken else 3000,
                         "why": why if broken else "all 3000 steps were taken"}],
            "history": made_history(rng, method == "deep_ritz", broken, 1 + number / 2)})
    settings = {"problem": "battery-pack", "method_name": method, "preset": "paper", "seed": 0,
                "method": {"width": 50, "depth": 4, "beta_s": 5.0},
                "stages": [{"optimiser": "adam", "options": {"learning_rate": 0.01}, "steps": 5000},
                           {"optimiser": "lbfgs", "options": {}, "steps": 3000}]}
    return {"method": method, "settings": settings, "parameters": 7851 + number, "seconds": 41.2 * (1 + number),
            "seconds_first_step": 12.3, "step_ms": {"adam": 0.41, "lbfgs": None} if number % 2 else None, "runs": runs}


def made_records(**options):
    return [made_record(name, size, k, **options) for k, (name, size) in enumerate(METHODS.items())]


BASELINES = {"initial temperature": {"T": made_metrics(0.4), "grad_T[0]": made_metrics(0.6)}}


# --- Statistics ------------------------------------------------------------------------------------------------


def test_intervals_by_hand():
    assert interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 4.302653 / math.sqrt(3)))
    assert interval([1.0, 2.0, 3.0])[1] == pytest.approx(2.484, abs=5e-4)
    assert interval([1.0, 3.0]) == pytest.approx((2.0, 12.706205 * math.sqrt(2) / math.sqrt(2)))
    assert interval([0.3] * 5) == (0.3, 0.0)
    assert interval([0.7]) == (0.7, None)
    assert interval([1e200, 2e200, 3e200]) == pytest.approx((2e200, 2.484e200), rel=1e-3)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [[1.0], [2.0]]])
def test_an_interval_needs_finite_numbers(values):
    with pytest.raises(ValueError, match="finite numbers; pass a list of at least one"):
        interval(values)


def test_a_statistic_is_over_what_is_finite():
    found = statistic([1.0, None, 3.0, math.nan, math.inf, 2.0])
    assert found["mean"] == 2.0 and found["half_width"] == pytest.approx(2.484, abs=5e-4)
    assert found["values"] == [1.0, None, 3.0, None, None, 2.0]
    assert statistic([None, math.nan]) == {"mean": None, "half_width": None, "values": [None, None]}
    assert statistic_text(found) == "2.0 ± 2.5 (3 of 6 seeds)"
    assert statistic_text(statistic([None])) == "–" == statistic_text(None)


def test_the_summary_has_every_number():
    record = made_record("pinn", 0.3)
    del record["runs"][0]["errors"]["T"]["by_time"][2]
    [(name, found)] = summarise([record]).items()
    assert name == "pinn" and found["seeds"] == [0, 1, 2, 3, 4] and found["seconds"] == 41.2
    mae = found["errors"]["T"]["mae"]
    values = [run["errors"]["T"]["mae"] for run in record["runs"]]
    assert mae["values"] == values and values[3] is None
    assert (mae["mean"], mae["half_width"]) == interval([value for value in values if value is not None])
    assert [row["time"] for row in found["errors"]["T"]["by_time"]] == TIMES
    middle = found["errors"]["T"]["by_time"][2]["mape"]["values"]
    assert middle[0] is None and middle[1] == record["runs"][1]["errors"]["T"]["by_time"][2]["mape"]
    assert found["boundary_violation"]["mean"] == pytest.approx(3e-3, rel=0.3)
    assert found["held_out"]["values"][3] is None and found["step_ms"] == {}
    with pytest.raises(ValueError, match="method 'pinn' comes twice"):
        summarise([record, record])


# --- Numbers and tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean, half_width, text", [
    (0.02441, 0.00102, "0.0244 ± 0.0010"),
    (0.02441, 0.0032, "0.024 ± 0.003"),
    (1.43e-6, 2.2e-7, "1.4e-6 ± 2e-7"),
    (1.43e-6, 1.2e-8, "1.430e-6 ± 1.2e-8"),
    (2.0, 2.484, "2.0 ± 2.5"),
    (0.3141, None, "0.314"),
    (3.2e-7, None, "3.20e-7"),
    (123.4, 7.7, "123 ± 8"),
    (54321.0, 700.0, "54321 ± 700"),
    (1.234e7, 2.1e5, "1.23e7 ± 2e5"),
    (9.99e-4, 9.6e-5, "1.0e-3 ± 1e-4"),
    (0.5, 0.0, "0.500 ± 0"),
    (0.0244318, 1e-10, "0.0244318 ± 1e-10"),
    (0.0, None, "0"),
    (0.0, 0.0, "0 ± 0"),
    (-1.86, 0.043, "-1.86 ± 0.04"),
    (0.021, 0.15, "0.021 ± 0.150"),
    (math.inf, None, "not finite"),
])
def test_digits_fit_the_interval(mean, half_width, text):
    assert number_text(mean, half_width) == text


def tables_in(text):
    """{title: {row: cells}} of the Markdown."""
    found = {}
    for title, body in re.findall(r"^\*\*(.+)\*\*\n\n((?:\|.*\n)+)", text, re.M):
        lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body.splitlines()]
        found[title] = {line[0]: line[1:] for line in (lines[0], *lines[2:])}
    return found


def test_tables_over_time_have_times_their_average_and_baselines():
    text = markdown(summarise(made_records()), REFUSED, BASELINES, ["grad_T"], "battery-pack")
    tables = tables_in(text)
    assert list(tables) == ["MAE of T", "MAPE of T, %", "Conditions and cost"]
    table = tables["MAE of T"]
    assert table.pop("") == ["t = 0", "t = 0.5", "t = 1", "average"]
    assert list(table) == [*METHODS, "*initial temperature*"]
    assert [name for name, cells in table.items() if "**" in "".join(cells)] == ["exact"]
    assert all(re.fullmatch(r"\*\*\d\.\d+e-\d ± \d(\.\d)?e-\d\*\*", cell) for cell in table["exact"])
    assert table["pinn"][3].endswith("(4 of 5 seeds)") and "±" not in table["*initial temperature*"][0]
    assert tables["MAPE of T, %"]["*initial temperature*"][3] == "100"  # a fraction of 1
    assert f"pfnn_2 does not apply: {SENTENCE}." in text and "5 seeds ±" in text
    assert text.count("4 of 5 seeds") == 4 + 4 + 1 + 1  # both tables, residual, note
    everything = markdown(summarise(made_records()))
    assert "MAE of grad_T[1]" in everything and "initial temperature" not in everything


def test_tables_of_a_steady_state_have_parts_and_no_times():
    records = made_records(timed=False, components=("u[0]", "u[1]", "p"))
    for record in records:
        for run in record["runs"]:
            for row in run["errors"].values():
                row["parts"] = {"|x| < 1": {"mae": None if row["mae"] is None else row["mae"] / 2}}
    tables = tables_in(markdown(summarise(records)))
    assert list(tables) == ["MAE", "WMAPE, %", r"MAE, \|x\| < 1", "Conditions and cost"]
    assert tables["MAE"][""] == ["u[0]", "u[1]", "p"] == tables["WMAPE, %"][""]
    assert len(tables[r"MAE, \|x\| < 1"]) == 1 + len(METHODS)


def test_wmape_stands_in_for_mape():
    record = made_record("exact", 0.1)
    for run in record["runs"]:
        for row in (run["errors"]["T"], *run["errors"]["T"]["by_time"][:1]):
            row["mape"] = None
    assert "WMAPE of T, %" in markdown(summarise([record]))
    for run in record["runs"]:
        run["errors"]["T"]["wmape"] = None  # defined at some times only
    table = tables_in(markdown(summarise([record])))["MAPE of T, %"]
    assert table["exact"][0] == "–" == table["exact"][3] and "±" in table["exact"][1]


def test_one_seed_has_no_interval():
    text = markdown(summarise([made_record("exact", 0.1, seeds=1), made_record("hc", 0.2, seeds=1)]))
    assert "±" not in text and "One seed" in text and "twice" not in text


def test_the_best_is_bold():
    def record(method, values):
        rows = [{"seed": k, "errors": {"u": {"mae": v, "wmape": v}}} for k, v in enumerate(values)]
        return {"method": method, "settings": {}, "runs": rows}

    records = [record("a", [3.0, 3.0]), record("b", [1.0, None]), record("c", [2.0, 2.0])]
    table = tables_in(markdown(summarise(records)))["MAE"]
    assert table["c"] == ["**2.00 ± 0**"] and table["b"] == ["1.00 (1 of 2 seeds)"] and table["a"] == ["3.00 ± 0"]
    assert tables_in(markdown(summarise(records[1:2])))["MAE"]["b"] == ["**1.00 (1 of 2 seeds)**"]
    text = markdown(summarise(records), baselines={"zero": {"u": {"mae": 0.5}}})
    assert tables_in(text)["MAE"]["*zero*"] == ["**0.500**"] and "No better than a trivial prediction: zero" in text


def test_the_headline_says_by_how_much():
    summary = summarise(made_records())
    text = headline(summary, BASELINES, ["grad_T"])
    assert text.startswith("exact has the smallest MAE of T: 1.4e-7 ± 2e-8; the next is adaptive_pinn_with_a_long_name")
    assert re.search(r"3\d,000 times as much, and the intervals are apart\.$", text)
    close = {"a": [1.0, 1.2], "b": [1.1, 1.3]}
    runs = {name: [{"seed": k, "errors": {"u": {"mae": v}}} for k, v in enumerate(v)] for name, v in close.items()}
    text = headline(summarise([{"method": name, "runs": rows} for name, rows in runs.items()]))
    assert text.endswith("1.09 times as much, but the intervals overlap.")
    bare = headline(summarise([made_record("hc", 0.1, components=())]))
    assert bare.startswith("hc has the smallest residual: 0.001")


# --- Figures ---------------------------------------------------------------------------------------------------


def pixels(figure):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def curves(axis):
    return [line for line in axis.lines if line.get_linestyle() != ":"]


def test_convergence_has_a_line_for_every_method():
    records = made_records()
    figure = convergence_plot(records)
    steps, energy, seconds, energy_seconds = figure.axes
    assert (steps.get_yscale(), energy.get_yscale()) == ("log", "linear") and "energy" in energy.get_title()
    assert len(curves(steps)) == len(curves(seconds)) == 9 and len(curves(energy)) == len(curves(energy_seconds)) == 1
    [legend] = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == [name + " (1 of 5 diverged)" * (name == "pinn") for name in METHODS]
    styles = {(line.get_color(), str(line.get_linestyle())) for line in legend.get_lines()}
    assert len(styles) == len(METHODS)
    assert [line.get_xdata()[0] for line in steps.lines if line.get_linestyle() == ":"] == [5000]
    line = curves(steps)[0]
    assert line.get_xdata()[-1] == 8000
    assert line.get_ydata()[-1] == np.median([run["history"][-1]["held_out"] for run in records[0]["runs"]])
    assert curves(seconds)[1].get_xdata()[-1] == records[1]["runs"][0]["history"][-1]["seconds"]
    assert pixels(figure)[..., :3].std() > 1
    assert len(convergence_plot(records[:8]).axes) == 2


def test_stages_that_change_at_different_steps_are_not_marked():
    records = made_records()[:2]
    assert any(line.get_linestyle() == ":" for line in convergence_plot(records).axes[0].lines)
    for run in records[1]["runs"]:
        run["history"] = run["history"][:20] + run["history"][25:]
    assert not any(line.get_linestyle() == ":" for line in convergence_plot(records).axes[0].lines)


def test_seeds_that_ended_early_stay_and_those_that_diverged_do_not():
    def run(seed, steps, losses):
        rows = [{"stage": "adam", "step": s, "steps": 4, "loss": v, "held_out": v, "seconds": s}
                for s, v in zip(steps, losses)]
        return {"seed": seed, "history": rows}

    runs = [run(0, [1, 2, 3, 4], [8.0, 4.0, 2.0, 1.0]), run(1, [1, 2], [4.0, 3.0]),
            run(2, [1, 2, 3], [1e-9, None, math.nan]), run(3, [], []), {"seed": 4, "history": None}]
    figure = convergence_plot([{"method": "a", "runs": runs}, {"method": "b", "runs": [runs[3]]}])
    first, second = figure.axes[0].lines
    assert first.get_xdata().tolist() == [1, 2, 3, 4] and first.get_ydata().tolist() == [4.0, 3.5, 2.5, 2.0]
    assert len(second.get_xdata()) == 0 and pixels(figure).size
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["a (3 of 5 diverged)", "b (1 of 1 diverged)"]


def test_error_bars_show_every_method():
    figure = error_bars(summarise(made_records()), BASELINES, ["grad_T"])
    [axis] = figure.axes
    assert [label.get_text() for label in axis.get_yticklabels()] == [*METHODS, "initial temperature"]
    assert axis.get_xscale() == "log" and len(axis.lines) == len(METHODS)
    low, high = axis.lines[1].get_xdata()
    mean, half_width = (summarise(made_records())["hc"]["errors"]["T"]["mae"][key] for key in ("mean", "half_width"))
    assert (low, high) == pytest.approx((mean - half_width, mean + half_width))
    assert axis.get_xlim()[0] < 1e-7 and axis.get_xlim()[1] > 0.4
    many = made_records(timed=False, components=[f"u[{k}]" for k in range(7)])
    assert len(error_bars(summarise(many)).axes) == SHOWN
    assert pixels(figure)[..., :3].std() > 1


# --- Files -----------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """All text, and whether every tag that opens is closed in its turn."""

    void = frozenset({"meta", "img", "input", "br", "link"})

    def __init__(self, text):
        super().__init__()
        self.open, self.text = [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("comparison") / "new" / "folder"
    provenance = {"command": "hardpde compare battery-pack", "versions": {"jax": "1.2.3"}, "commit": "abc123"}
    write_comparison(path, "battery-pack", made_records(), REFUSED, BASELINES, provenance, ["grad_T"])
    return path


def test_all_files_are_there_and_no_others(folder):
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == ["comparison.json", "figures/convergence.png", "figures/errors.png", "report.html", "table.md"]
    assert (folder / "figures" / "errors.png").read_bytes().startswith(b"\x89PNG")
    assert SENTENCE in (folder / "table.md").read_text(encoding="utf-8")


def test_the_data_hold_everything_and_no_nan(folder):
    def refuse(word):
        raise AssertionError(word)

    data = json.loads((folder / "comparison.json").read_text(), parse_constant=refuse)
    assert list(data) == ["problem", "summary", "refused", "baselines", "records", "provenance"]
    assert list(data["summary"]) == list(METHODS) and len(data["records"][0]["runs"][0]["history"]) == 40
    assert data["records"][2]["runs"][3]["held_out"] is None and data["refused"] == REFUSED
    assert data["provenance"]["commit"] == "abc123"


def test_the_page_says_everything(folder):
    source = (folder / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|<link|@import|url\(|src='(?!data:)", re.sub(r"base64,[A-Za-z0-9+/=]+", "", source))
    page = Page(source)
    text = "\n".join(page.text)
    for method in METHODS:
        assert page.text.count(method) >= 5  # tables of errors, conditions, cost, endings, settings
    for words in (SENTENCE, "abc123", "1.2.3", "the loss was not finite at step 1,601", "0–2, 4", "initial temperature",
                  "4 of 10", "exact has the smallest MAE of T", "± 2e-8 by exact", "learning_rate",
                  "7,851", "7,860", "0.41"):
        assert words in text
    assert source.count("class='best'") == 8 and source.count("<img") == 2
    assert source.count(">exact</td>") == 6 + 4 and source.count(">approximate</td>") == 6


def test_text_is_escaped(tmp_path):
    record = made_record("<i>a</i>", 0.1, seeds=1, components=("<b>",))
    write_comparison(tmp_path, "<u>", [record], [{"method": "<s>", "why": "<em>"}], {"<q>": {"<b>": made_metrics(1)}})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for raw in ("<i>a", "<b>:", "of <b>", "<u>", "<s>", "<em>", "<q>"):
        assert raw not in page
    Page(page)


def bare(method, **run):
    return {"method": method, "settings": {}, "runs": [{"seed": 0, **run}]}


@pytest.mark.parametrize("records, says", [
    ([], "no energy whose minimum"),
    ([made_record("hc", 0.1, components=())], "No reference is known"),
    ([made_record("pinn", 0.1)["runs"][3]], "No method has a finite error"),
    ([bare("hc", errors={}, history=[], endings=[])], "No method has a finite residual"),
    ([bare("hc", errors={"u": made_metrics(1e300, False)}, boundary_violation=math.inf)], "not finite"),
    ([bare("hc", errors={"u": {"mae": 0.0, "mape": None}}, residual=0.0)], "smallest MAE of u: 0"),
    ([{"method": "hc", "settings": {}, "runs": []}], "No method has a finite residual"),
])  # fmt: skip
def test_whatever_is_missing_there_is_a_page(records, says, tmp_path):
    records = [{"method": "pinn", "settings": {}, "runs": [row]} if "seed" in row else row for row in records]
    write_comparison(tmp_path, "odd", records, REFUSED)
    text = "\n".join(Page((tmp_path / "report.html").read_text(encoding="utf-8")).text)
    assert says in text and SENTENCE in text
    assert "nan" not in re.sub(r"\w*nan\w+|\w+nan\w*", "", text.lower())


def test_files_are_replaced_whole(folder, tmp_path, monkeypatch):
    write_comparison(tmp_path, "one", [made_record("exact", 0.1)])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def broken(*arguments, **options):
        raise OSError("no space")

    monkeypatch.setattr(comparison, "tags", broken)
    with pytest.raises(OSError, match="no space"):
        write_comparison(tmp_path, "two", [made_record("exact", 0.2)])
    assert (tmp_path / "report.html").read_bytes() == before[tmp_path / "report.html"]
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(before)
