"""Do tests notice mistakes? One mistake after the other is made in a copy of the code, and the tests that guard it run.

    python benchmarks/mutations.py --out results/mutations.json [--only NAME,…]

A mutation that no test notices has survived: a test is missing.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from common import ROOT, options, write_result

PARTS = ("hardpde", "tests", "benchmarks", "examples", "docs", "results", "pyproject.toml", "README.md", "CHANGELOG.md",
         "mkdocs.yml")
LONGEST = 400  # seconds


class Mutation(NamedTuple):
    file: str
    right: str
    wrong: str
    tests: str  # and words that choose among them
    words: str = ""


ANSATZ, FIT, VERDICT = "tests/ansatz/test_ansatz.py", "tests/training/test_best.py", "tests/evaluation/test_verdict.py"
LAYERS, PROBLEM, JUMPS = "tests/ansatz/test_layers.py", "tests/problem/test_problem.py", "tests/problem/test_jumps.py"
MALFORMED = "tests/problem/test_malformed.py"
MUTATIONS = {
    "the weights before the last good ones": Mutation(
        "training/fit.py", "visited[k, counts[k] - 1]", "visited[k, max(counts[k] - 2, 0)]", FIT, "last_weights"),
    "a divergence that is not undone": Mutation("training/best.py", "DIVERGED = 1e4, 1e2", "DIVERGED = 1e300, 1e2", FIT,
                                                "diverges"),
    "any held-out loss is the best": Mutation(
        "training/best.py", 'record["held_out"] < self', 'record["held_out"] > -1 or self', FIT),
    "corners agree to three digits": Mutation(
        "problem/layout.py", "_TOLERANCE = 1e-8", "_TOLERANCE = 1e-3", PROBLEM, "some_digits or agree or mistake"),
    "corners are looked at at few instants": Mutation(
        "problem/layout.py", "_MOMENTS = 2048", "_MOMENTS = 2", MALFORMED, "wrong_statement"),
    "time that is not scaled": Mutation(
        "ansatz/start.py", "- self.time[0]) / (self.time[1] - self.time[0])", "- self.time[0])", ANSATZ,
        "unit_of_time"),
    "times that follow places": Mutation(
        "problem/problem.py", "jax.random.fold_in(key, 1), (n, 1)", "key, (n, 1)", PROBLEM, "follow"),
    "a mirror anywhere": Mutation("problem/statement_checks.py", "beyond.max() > 1e-6", "beyond.max() > 1e6", MALFORMED,
                                  "wrong_statement"),
    "layers where convection comes in": Mutation("ansatz/layers.py", 'np.einsum("ki,ik->k", n, drift)',
                                                 '-np.einsum("ki,ik->k", n, drift)', LAYERS, "widths"),
    "layers of waves": Mutation("ansatz/layers.py", "np.where(waves, 0.0, rates)", "rates", LAYERS,
                                 "widths or nothing"),
    "no layers along walls": Mutation("ansatz/layers.py", "rates), parabolic)", "rates), 0 * parabolic)", LAYERS,
                                      "widths"),
    "layers of one state of many": Mutation("ansatz/layers.py", "return np.zeros(0)  # what", "pass  # what", LAYERS,
                                            "nothing"),
    "points that do not reach into layers": Mutation("formulation/points.py", "else inner**share_of",
                                                     "else share_of**1.5", LAYERS, "reach"),
    "steps finer than points": Mutation("evaluation/steep.py", "(width > FINEST) |", "(width > FINEST) &", VERDICT,
                                        "between_the_points"),
    "coefficients between points": Mutation("evaluation/steep.py", "found = [changes, _of_equations(problem, x, jets, "
                                            "scale)]", "found = [changes]", VERDICT, "coefficients_and"),
    "convection inside a balance": Mutation("evaluation/conservation.py", "constant[:d] + _convected(schema, "
                                            "by_state[:, e])", "constant[:d]", VERDICT, "exact_layer"),
    "balances without sources": Mutation("evaluation/conservation.py", "made = rest * volume.weight",
                                         "made = 0 * rest * volume.weight", VERDICT, "sources_are or flux_that"),
    "jumps by a field": Mutation("problem/jumps.py", "for k, label in enumerate(schema.labels()):",
                                 "for k, label in enumerate([]):", JUMPS, "what_to_do"),
    "a normal that points inwards": Mutation("geometry/base.py", "return -n if self.flip else n",
                                             "return n if self.flip else -n", ANSATZ, "any_weights or hold"),
    "a condition of the wrong side": Mutation("problem/conditions.py", "flux = q.gradient(field) @ n",
                                              "flux = -(q.gradient(field) @ n)", ANSATZ, "solution"),
}


def noticed(one: Mutation, folder: Path) -> tuple[bool, str]:
    """Whether the tests fail, and their last line."""
    file = folder / "hardpde" / one.file
    text = file.read_text()
    if text.count(one.right) != 1:
        raise ValueError(f"'{one.right}' stands {text.count(one.right)} times in {one.file}, and once is needed")
    file.write_text(text.replace(one.right, one.wrong))
    words = ["-k", one.words] if one.words else []
    try:
        found = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", one.tests, *words], cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)}, capture_output=True, text=True, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return True, "no end"
    finally:
        file.write_text(text)
    if found.returncode not in (0, 1):
        raise ValueError(f"the tests of {one.tests} cannot be run: {found.stdout[-300:]}")
    return found.returncode == 1, found.stdout.strip().splitlines()[-1]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","))
    arguments = parser.parse_args()
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in PARTS:
            (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, folder / part)
        for name, one in MUTATIONS.items():
            if arguments.only and name not in arguments.only:
                continue
            killed, last = noticed(one, folder)
            rows[name] = {**one._asdict(), "noticed": killed, "last line": last}
            print(f"{name:44} {'noticed' if killed else 'SURVIVED'}  {last}", flush=True)
    found = [name for name, row in rows.items() if not row["noticed"]]
    write_result(arguments.out, {"mutations": len(rows), "survived": found, "rows": rows})
    print(f"{len(rows)} mutations, {len(found)} survived")


if __name__ == "__main__":
    main()
