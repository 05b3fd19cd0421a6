"""The command line: hardpde list | check | solve | compare | reproduce | bench | reference | resume | report | …"""

import argparse
import json
from pathlib import Path
from typing import Any

from hardpde.cli.words import refusal, say, say_result
from hardpde.evaluation.certificate import certify, random_models, violation
from hardpde.evaluation.errors import checked_reference, measure_baselines
from hardpde.evaluation.export import export_vtu
from hardpde.evaluation.figures.pictures import draw_domain
from hardpde.evaluation.report.comparison import write_comparison
from hardpde.evaluation.report.comparison_tables import endings, in_short, markdown
from hardpde.formulation.formulation import Formulation
from hardpde.methods import METHODS
from hardpde.problem.problem import Problem
from hardpde.problems import PROBLEMS, REFERENCES
from hardpde.problems.presets import make_stages
from hardpde.runs.finish import finish, show
from hardpde.runs.folder import CHECKPOINT, check_folder, prepare_folder, settle, what_is_left, write_run
from hardpde.runs.load import load_problem, read_finished, read_metrics, read_run
from hardpde.runs.records import is_comparison, plans_begun, read_records, save_record
from hardpde.solving.direct import check_solver, direct_settings, run_directly
from hardpde.solving.settings import check_options, make_formulation, make_settings
from hardpde.solving.solution import Solution
from hardpde.solving.solve import run
from hardpde.studies.bench import bench, timings
from hardpde.studies.compare import compare, comparison_settings
from hardpde.studies.reproduction.base import Work
from hardpde.support.files import finite_or_none
from hardpde.support.hardware import first_process, in_first_process, join_processes
from hardpde.support.progress import Progress
from hardpde.support.provenance import device, provenance
from hardpde.support.tensorboard import FOLDER as TENSORBOARD
from hardpde.support.tensorboard import check_tensorboard, has_events


def list_command(arguments: argparse.Namespace) -> dict[str, Any]:
    width = max(map(len, (*PROBLEMS, *METHODS)))
    for title, entries in (("problems", PROBLEMS), ("methods", METHODS)):
        say(arguments, f"{title}:")
        for name, entry in entries.items():
            say(arguments, f"  {name:{width}}  {(entry.__doc__ or '').strip().splitlines()[0]}")
    return {"problems": list(PROBLEMS), "methods": list(METHODS)}


def _problem(arguments: argparse.Namespace) -> tuple[Problem, dict[str, Any]]:
    """The problem that was asked for, with the options given on the command line."""
    options = dict(arguments.given)
    if arguments.dim is not None:
        options["dim"] = arguments.dim
    return load_problem(arguments.problem, options)


def _check_file(path: Path, what: str) -> None:
    """Before anything is computed: a file can be written there."""
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder '{path.parent}' for {what}; make it or choose another")
    if path.is_dir():
        raise ValueError(f"'{path}' is a folder; name a file for {what}")


def check_command(arguments: argparse.Namespace) -> dict[str, Any]:
    problem, _ = _problem(arguments)
    picture = Path(arguments.picture or f"{problem.name}-domain.png")
    _check_file(picture, "the picture")
    settings = make_settings(problem, arguments.method, "quick", arguments.seed)
    formulation = make_formulation(problem, {**settings, "method": {"points": 256, **dict(arguments.set)}})
    rows = certify(formulation, random_models(formulation, seed=arguments.seed))
    draw_domain(problem).savefig(picture, dpi=130)
    say(arguments, f"{problem.name}: {', '.join(problem.schema.labels())} on "
                    f"{', '.join(f'{name} ({len(b.pieces)})' for name, b in problem.domain.boundaries.items())}")
    for row in rows:
        say(arguments, f"  {row['name']:24} on {row['boundary']:12} max |A q − g| = {row['violation']:.1e} "
                        f"({row['points']} points)")
    worst = violation(rows)
    exact = "every condition holds by construction" if worst <= 1e-12 else "conditions hold only approximately"
    say(arguments, f"method {arguments.method}, random networks: largest violation {worst:.1e}; {exact}")
    dim = problem.schema.dim
    say(arguments, f"the domain is drawn in {picture}" if dim <= 3 else
         f"no picture shows {dim} dimensions; {picture} states the boundaries in words")
    keys = ("name", "boundary", "violation")
    return {"problem": problem.name, "method": arguments.method, "max_violation": worst, "picture": str(picture),
            "conditions": [{key: row[key] for key in keys} for row in rows]}


def _join(arguments: argparse.Namespace) -> None:
    """Meet the other processes, if there are to be any."""
    given = (arguments.coordinator, arguments.processes, arguments.process)
    if any(value is not None for value in given):
        if any(value is None for value in given):
            raise ValueError("several processes need --coordinator HOST:PORT, --processes N and --process I, all three")
        join_processes(*given)


def solve_command(arguments: argparse.Namespace) -> dict[str, Any]:
    _join(arguments)
    if arguments.out:  # to state a problem may take a while
        in_first_process(check_folder, Path(arguments.out), arguments.force)
    problem, source = _problem(arguments)
    if arguments.tensorboard:
        check_tensorboard()
    settings = make_settings(problem, arguments.method, arguments.preset, arguments.seed,
                             dict(arguments.set), arguments.steps, arguments.stages, arguments.schedule,
                             arguments.devices)
    training = ("stages", "steps", "devices", "tensorboard", "coordinator")
    check_solver(arguments.solver, arguments.tolerance, settings,
                 **{name: getattr(arguments, name) for name in training})
    if arguments.solver == "direct":
        settings = direct_settings(settings, dict(arguments.set), arguments.tolerance)
    folder = Path(arguments.out or f"runs/{problem.name}-{arguments.method}-{arguments.preset}-{arguments.seed}")
    in_first_process(check_folder, folder, arguments.force)
    checked_reference(problem)
    formulation = None if arguments.solver == "direct" else make_formulation(problem, settings)
    about = provenance()
    try:
        in_first_process(prepare_folder, folder)
        in_first_process(write_run, folder, settings, source, about, "running")
        return _train(arguments, problem, settings, source, about, folder, formulation)
    except OSError as error:
        raise ValueError(refusal(error) + what_is_left(folder)) from None


def _train(arguments: argparse.Namespace, problem: Problem, settings: dict[str, Any], source: dict[str, Any],
           about: dict[str, Any], folder: Path, formulation: Formulation | None = None) -> dict[str, Any]:
    """Train and finish a run; without a formulation it is one to go on with."""
    events = folder / TENSORBOARD
    watched = (arguments.tensorboard or has_events(events)) and first_process()
    if watched:
        check_tensorboard()
    say(arguments, f"{problem.name} by {settings['method_name']}, preset {settings['preset']}, "
                    f"seed {settings['seed']}, on {device()}" + _sharing(settings))
    if settings.get("solver") == "direct":
        return _directly(arguments, problem, settings, source, about, folder)
    progress = Progress(settings["stages"])
    solution = run(problem, settings, checkpoint=folder / CHECKPOINT, resume=formulation is None,
                   report=progress if first_process() else lambda record: None, every=arguments.checkpoint_every,
                   formulation=formulation, tensorboard=events if watched else None)
    if not first_process():
        return {}
    progress.close()
    for ending in solution.training.endings:
        say(arguments, f"{ending['stage']} ended after {ending['steps']} steps: {ending['why']}")
    result = finish(solution, folder, about)
    write_run(folder, settings, source, about, "finished")
    settle(folder)
    return say_result(arguments, result, folder)


def _directly(arguments: argparse.Namespace, problem: Problem, settings: dict[str, Any], source: dict[str, Any],
              about: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Solve directly and finish the run."""

    def tell(row: dict[str, Any]) -> None:
        say(arguments, f"{row['step']} unknowns: loss {row['loss']:.1e}, held-out {row['held_out']:.1e}, "
                       f"{row['seconds']:.1f} s")

    solution = run_directly(problem, settings, tell)
    (ending,) = solution.training.endings
    say(arguments, ending["why"])
    result = finish(solution, folder, about)
    write_run(folder, solution.settings, source, about, "finished")
    settle(folder)
    return {**say_result(arguments, result, folder), "solver": "direct", "decision": ending["why"],
            "unknowns": ending["steps"], "held_out": result["held_out"], "solve_seconds": result["seconds"]}


def _sharing(settings: dict[str, Any]) -> str:
    devices = settings["method"].get("devices", 1)
    return f", points shared by {devices} devices" if devices > 1 else ""


def compare_command(arguments: argparse.Namespace) -> dict[str, Any]:
    problem, source = _problem(arguments)
    methods = list(METHODS) if arguments.methods == ["all"] else arguments.methods
    plans = comparison_settings(problem, methods, arguments.seeds, arguments.preset, arguments.schedule,
                                dict(arguments.set), arguments.steps)
    folder = Path(arguments.out or f"runs/compare-{problem.name}-{arguments.preset}")
    asked, done = {"plans": plans, "seeds": arguments.seeds}, {}
    if arguments.resume:
        done = read_records(folder, asked, source)
        asked["plans"] = {**plans_begun(folder), **plans}
    elif not arguments.force and is_comparison(folder):
        raise ValueError(f"'{folder}' exists; --resume goes on with it and --force replaces it, or choose another "
                         f"folder with --out")
    else:
        check_folder(folder, arguments.force)
    about = provenance()
    gradients = [gradient for gradient, _ in problem.schema.gradients]
    progress = Progress([])

    def start(refused: list[dict]) -> None:
        for row in refused:
            say(arguments, f"{row['method']} does not apply: {row['why']}")
        try:
            if not (arguments.resume and is_comparison(folder)):
                prepare_folder(folder)
            write_run(folder, asked, source, about, "comparing")
        except OSError as error:
            raise ValueError(refusal(error) + what_is_left(folder)) from None
        for method in done:
            say(arguments, f"{method} is done: {in_short(done[method], gradients)}")

    def begin(settings: dict) -> None:
        nonlocal progress
        seeds = f"{arguments.seeds} seeds at once" if arguments.seeds > 1 else "1 seed"
        say(arguments, f"{problem.name} by {settings['method_name']}, {seeds}, on {device()}")
        progress = Progress(settings["stages"])

    def keep(record: dict, solutions: list[Solution]) -> None:
        progress.close()
        record["provenance"] = about
        save_record(folder, record, solutions)
        for stage, seeds, steps, why in endings(record):
            if not why.startswith("all "):
                say(arguments, f"{stage}, seeds {seeds}: ended after {steps} steps: {why}")
        say(arguments, f"{record['method']}: {in_short(record, gradients)}; {record['seconds']:.1f} s of training")

    records, refused = compare(problem, methods, arguments.seeds, arguments.preset, schedule=arguments.schedule,
                               options=dict(arguments.set), steps=arguments.steps, done=done, start=start, begin=begin,
                               keep=keep, report=lambda row: progress(row))
    trivial = measure_baselines(problem, checked_reference(problem))
    summary = write_comparison(folder, problem.name, records, refused, trivial, about, gradients)
    write_run(folder, asked, source, about, "finished")
    settle(folder)
    say(arguments, markdown(summary, refused, trivial, gradients))
    say(arguments, f"open {folder / 'report.html'}")
    return {"problem": problem.name, "preset": arguments.preset, "schedule": arguments.schedule,
            "seeds": arguments.seeds, "methods": summary, "refused": refused, "device": device(), "run": str(folder)}


def reproduce_command(arguments: argparse.Namespace) -> dict[str, Any]:
    from hardpde.studies.reproduction.reproduce import chosen, reproduce, results_folder
    from hardpde.studies.reproduction.side_by_side import MOST_JOBS, train_side_by_side

    names = chosen(arguments.experiments)
    if not 1 <= arguments.jobs <= MOST_JOBS:
        raise ValueError(f"--jobs is {arguments.jobs}; it is a number from 1 to {MOST_JOBS}")
    folder = results_folder(arguments.out, arguments.quick)
    work = Work(folder, arguments.quick, lambda text: say(arguments, text))
    found = {}
    made = train_side_by_side(names, work, arguments.jobs, not arguments.json) if arguments.jobs > 1 else {}
    for name in names:
        say(arguments, f"{name}, on {device()}")
        data = made[name] if name in made else reproduce(name, work)
        found[name] = {"title": data["title"], "seconds": data["seconds"], "file": str(folder / f"{name}.json")}
        say(arguments, f"{data['title']}: {data['seconds']:.0f} s; open {folder / f'{name}.md'}")
    return {"quick": arguments.quick, "experiments": found, "device": device(), "folder": str(folder)}


def bench_command(arguments: argparse.Namespace) -> dict[str, Any]:
    problem, _ = _problem(arguments)
    path = Path(arguments.out) if arguments.out else None
    if path is not None:
        _check_file(path, "the figures")
    found = bench(problem, arguments.method, arguments.preset, points=arguments.points, solve=arguments.solve)
    say(arguments, f"{problem.name} by {arguments.method}, preset {arguments.preset}: {found['points']} points, "
                    f"{found['parameters']:,} weights, {found['dtype']}")
    say(arguments, timings(found))
    if path is not None:
        path.write_text(json.dumps(finite_or_none(found), indent=1) + "\n")
    return found


def resume_command(arguments: argparse.Namespace) -> dict[str, Any]:
    _join(arguments)
    folder = _run_folder(arguments, "`hardpde compare … --resume --out {folder}` goes on with it")
    about, problem = read_run(folder)
    if about["status"] == "finished":
        result = read_metrics(folder)
        settle(folder)
        say(arguments, f"'{folder}' is finished already")
        return say_result(arguments, result, folder)
    if about["settings"].get("solver") != "direct":
        make_stages(about["settings"]["stages"])
    check_options(about["settings"])
    return _train(arguments, problem, about["settings"], about["source"], about["provenance"], folder)


def _run_folder(arguments: argparse.Namespace, instead: str) -> Path:
    """The folder of one run; of a comparison, it is said what to do instead."""
    folder = Path(arguments.folder)
    if is_comparison(folder):
        raise ValueError(f"'{folder}' is a comparison of methods, not a run; {instead.format(folder=folder)}")
    return folder


def report_command(arguments: argparse.Namespace) -> dict[str, Any]:
    folder = _run_folder(arguments, "`hardpde compare … --resume --out {folder}` writes its report again")
    solution, about, metrics = read_finished(folder)
    show(solution, folder, metrics, metrics["certificate"], checked_reference(solution.problem), about["provenance"])
    say(arguments, f"open {folder / 'report.html'}")
    return {"report": str(folder / "report.html")}


def export_command(arguments: argparse.Namespace) -> dict[str, Any]:
    folder = _run_folder(arguments, "`hardpde solve` makes runs that can be exported")
    solution, _, _ = read_finished(folder)
    stem = Path(arguments.out) if arguments.out else folder / "solution"
    stem = stem.with_suffix("") if stem.suffix in (".vtu", ".pvd") else stem
    path = export_vtu(solution, stem, checked_reference(solution.problem))
    say(arguments, f"open {path} in ParaView")
    return {"file": str(path)}


def reference_command(arguments: argparse.Namespace) -> dict[str, Any]:
    problem, source = _problem(arguments)
    path = Path(arguments.out or f"{problem.name}-reference.npz")
    _check_file(path, "the reference")
    if path.exists() and not arguments.force:
        raise ValueError(f"'{path}' exists; choose another file with --out, or --force to replace it")
    name = source.get("name")
    if name in REFERENCES:
        say(arguments, f"finite elements, level {arguments.level} (and one below, to measure the difference)")
        try:
            reference = REFERENCES[name](arguments.level)
        except ImportError as error:
            raise ValueError(str(error)) from None
    else:
        made = checked_reference(problem)
        if made is None:
            raise ValueError(f"'{problem.name}' has no known solution, and finite-element references are offered for "
                             f"{', '.join(REFERENCES)} only; state exact=… in it")
        reference = made
    reference.save(path)
    means = {name: [float(v.mean()) for v in (values if reference.times is not None else [values])]
             for name, values in reference.values.items()}
    say(arguments, f"{len(reference.x)} nodes written to {path}; {reference.about}")
    return {"problem": problem.name, "file": str(path), "nodes": len(reference.x), "about": reference.about,
            "mean": means}
