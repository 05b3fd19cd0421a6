"""Certify the battery pack's conditions with random networks, for each method, and write results/check-METHOD.json.

    python benchmarks/checks.py
"""

import json
from pathlib import Path

from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.methods import METHODS
from hardpde.problems import PROBLEMS
from hardpde.provenance import provenance

RESULTS = Path(__file__).resolve().parent.parent / "results"


def main() -> None:
    problem = PROBLEMS["battery-pack"]()
    for name in ("exact", "hc"):
        formulation = METHODS[name](problem, points=256)
        rows = certify(formulation, random_models(formulation))
        result = {"problem": problem.name, "method": name, "seed": 0, "max_violation": violation(rows),
                  "conditions": rows, **provenance()}
        (RESULTS / f"check-{name}.json").write_text(json.dumps(result, indent=1) + "\n")
        print(name, result["max_violation"])


if __name__ == "__main__":
    main()
