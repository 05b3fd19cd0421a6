"""Run experiments and write what came out: NAME.json with provenance, NAME.md, NAME.png."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from hardpde.studies.reproduction.airfoil_extension import figure5
from hardpde.studies.reproduction.base import Outcome, Work
from hardpde.studies.reproduction.comparisons import comparison, figure7
from hardpde.studies.reproduction.extra_fields import figure4, figure6
from hardpde.studies.reproduction.hardness import table4
from hardpde.studies.reproduction.theory.claims import theory
from hardpde.support.files import replacing, write_json
from hardpde.support.provenance import provenance

EXPERIMENTS: dict[str, Callable[[Work], Outcome]] = {
    **{f"table{n}": table4 if n == 4 else comparison(f"table{n}") for n in range(1, 11)},
    "fig4": figure4, "fig5": figure5, "fig6": figure6, "fig7": figure7, "theory": theory,
}


def chosen(names: Sequence[str]) -> list[str]:
    """The experiments that are named, each once; "all" stands for all of them."""
    if unknown := [name for name in names if name not in (*EXPERIMENTS, "all")]:
        raise ValueError(f"there is no experiment '{unknown[0]}'; there are {', '.join(EXPERIMENTS)}, and all")
    return list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))


def reproduce(name: str, work: Work) -> dict[str, Any]:
    """Run one experiment and write its files into the folder; the contents of its JSON file.

    A quick run compiles without optimisation: it computes next to nothing.
    """
    began, before = time.perf_counter(), jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", work.quick or before)
    try:
        outcome = EXPERIMENTS[name](replace(work, say=lambda text: work.say(f"  {text}")))
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
        jax.clear_caches()  # there is a limit to how much compiled code a process can hold
    seconds = time.perf_counter() - began
    about = provenance()
    files = {label: f"{name}{'-' * bool(label)}{label}.png" for label in outcome.figures}
    data = {"name": name, "title": outcome.title, "quick": work.quick, "seconds": seconds, "provenance": about,
            **outcome.data}
    for label, figure in outcome.figures.items():
        with replacing(work.folder / files[label]) as path:
            figure.savefig(path, dpi=130, format="png")
    pictures = [f"![{label or outcome.title}]({file})" for label, file in files.items()]
    kind = "A quick run: it shows that everything works, and its figures mean nothing. " if work.quick else ""
    end = (f"{kind}`{about['command']}`, commit {about['commit']}: {seconds:.0f} s on {about['device']}, without "
           "trainings that were there already.")
    with replacing(work.folder / f"{name}.md") as path:
        path.write_text("\n\n".join([f"# {outcome.title}", outcome.text, *pictures, end]) + "\n")
    write_json(work.folder / f"{name}.json", data)
    return data


def results_folder(wished: str | None, quick: bool) -> Path:
    """The folder for results, made if need be; those of quick and of full runs are kept apart."""
    kind, other = ("quick", "full") if quick else ("full", "quick")
    folder = Path(wished or ("reproduction-quick" if quick else "reproduction"))
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"'{folder}' is a file; choose another folder with --out")
    if (folder / other).exists():
        raise ValueError(f"'{folder}' holds {other} runs; choose another folder with --out")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / kind).exists():
        raise ValueError(f"'{folder}' holds files that are not of `hardpde reproduce`; choose another with --out")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / kind).touch()
    return folder
