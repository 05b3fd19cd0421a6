"""The command line: hardpde list | check | solve | compare | reproduce | bench | reference | resume | report | …"""

import argparse
import json
from pathlib import Path
from typing import Any

from hardpde.cli.words import Underway, refusal, say, say_errors, say_row, say_well_posed, say_worth, shaped
from hardpde.direct.kept import KEPT
from hardpde.evaluation.base import DECISION, UNTRAINED
from hardpde.evaluation.certificate import EXACT, certify, random_models, violation
from hardpde.evaluation.errors import checked_reference, measure_baselines
from hardpde.evaluation.export import export_vtu
from hardpde.evaluation.report.comparison_tables import endings, in_short, markdown
from hardpde.formulation.formulation import Formulation
from hardpde.methods import METHODS
from hardpde.problem.completed import added_fields
from hardpde.problem.jumps import check_jumps
from hardpde.problem.problem import Problem
from hardpde.problem.reference import Reference
from hardpde.problem.well_posed import check_well_posed
from hardpde.problems import PROBLEMS, REFERENCES
from hardpde.problems.fem.refined import finite_elements
from hardpde.problems.presets import make_stages
from hardpde.runs.finish import keep, measure, present
from hardpde.runs.folder import CHECKPOINT, check_folder, prepare_folder, settle, what_is_left, write_run
from hardpde.runs.load import check_files, load_problem, read_finished, read_metrics, read_run, with_reference_file
from hardpde.runs.records import is_comparison, plans_begun, read_records, save_record
from hardpde.solving.direct import (
    brought_within,
    check_solver,
    chosen_solver,
    direct_settings,
    run_directly,
    with_devices,
)
from hardpde.solving.marching import run_march
from hardpde.solving.settings import check_options, make_formulation, make_settings
from hardpde.solving.solution import Solution
from hardpde.solving.solve import decide, run
from hardpde.studies.bench import bench, timings
from hardpde.studies.compare import compare, comparison_settings
from hardpde.studies.overhead import overhead_lines, time_overhead
from hardpde.studies.reproduction.base import Work
from hardpde.support.compiling import runs_once
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
    problem, source = load_problem(arguments.problem, options)
    file = getattr(arguments, "reference", None)
    return (problem, source) if file is None else with_reference_file(problem, source, file)


def _check_file(path: Path, what: str) -> None:
    """Before anything is computed: a file can be written there."""
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder '{path.parent}' for {what}; make it or choose another")
    if path.is_dir():
        raise ValueError(f"'{path}' is a folder; name a file for {what}")


def check_command(arguments: argparse.Namespace) -> dict[str, Any]:
    from hardpde.evaluation.figures.pictures import draw_domain, draw_mode

    problem, _ = _problem(arguments)
    check_jumps(problem)
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
                        f"({row['points']} points)" + (f": {row['cause']}" if "cause" in row else ""))
    worst = violation(rows)
    exact = "every condition holds by construction" if worst <= 1e-12 else "conditions hold only approximately"
    say(arguments, f"method {arguments.method}, random networks: largest violation {worst:.1e}; {exact}")
    if added := added_fields(problem):
        say(arguments, added)
    dim = problem.schema.dim
    say(arguments, f"the domain is drawn in {picture}" if dim <= 3 else
         f"no picture shows {dim} dimensions; {picture} states the boundaries in words")
    well_posed = check_well_posed(problem)
    say_well_posed(arguments, well_posed)
    for mode in well_posed.modes:
        path = picture.with_name(f"{problem.name}-free-{'-'.join(mode.fields)}{'' if mode.constant else '-state'}.png")
        draw_mode(problem.completed, mode).savefig(path, dpi=130)
        say(arguments, f"what may be added to {', '.join(mode.fields)} is drawn in {path}")
    keys = ("name", "boundary", "violation")
    wrong = arguments.method == "exact" and not worst <= EXACT  # other methods promise less
    return {"problem": problem.name, "method": arguments.method, "max_violation": worst, "picture": str(picture),
            "conditions": [{key: row[key] for key in (*keys, "cause") if key in row} for row in rows],
            **well_posed.summary(), "status": int(wrong)}


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
    check_jumps(problem)
    if arguments.tensorboard:
        check_tensorboard()
    settings = _solver_settings(arguments, problem)
    in_first_process(_look_at, arguments, problem)
    folder = Path(arguments.out or f"runs/{problem.name}-{arguments.method}-{settings['preset']}-{arguments.seed}")
    in_first_process(check_folder, folder, arguments.force)
    checked_reference(problem)
    formulation = make_formulation(problem, settings) if settings["solver"] == "train" else None
    about = provenance()
    try:
        in_first_process(prepare_folder, folder)
        in_first_process(write_run, folder, settings, source, about, "running")
        arguments.after_stop = _after_stop(folder)
        return _solved(arguments, problem, settings, source, about, folder, formulation)
    except OSError as error:
        raise ValueError(refusal(error) + what_is_left(folder)) from None


def _after_stop(folder: Path) -> str:
    return f"; `hardpde resume {folder}` goes on from the last checkpoint"


def _look_at(arguments: argparse.Namespace, problem: Problem) -> None:
    """Before anything is solved: what is wrong with the problem is said, or where that is asked for, refused."""
    found = check_well_posed(problem)
    if arguments.strict:
        found.refuse()
    if added := added_fields(problem):
        say(arguments, added)
    for finding in found.findings:
        say(arguments, f"{'warning: ' if finding.fault else ''}{finding.sentence}")


def _solver_settings(arguments: argparse.Namespace, problem: Problem) -> dict[str, Any]:
    """The settings of the solver that was asked for, or that is left to be decided."""
    options = dict(arguments.set)
    check_solver(arguments.solver, arguments.tolerance, arguments.seconds)
    training = {name: getattr(arguments, name) for name in ("preset", "stages", "steps", "schedule", "devices",
                                                            "tensorboard", "coordinator")}
    solver = chosen_solver(arguments.solver, arguments.method, options=options, **training)
    settings = make_settings(problem, arguments.method, arguments.preset or "quick", arguments.seed,
                             None if solver in UNTRAINED else options, arguments.steps, arguments.stages,
                             arguments.schedule or "fair", arguments.devices)
    settings = with_devices(settings, None if solver == "train" else arguments.devices)
    if solver in UNTRAINED:
        return direct_settings(settings, options, arguments.tolerance, arguments.seconds, solver)
    asked = {"tolerance": arguments.tolerance, "seconds": arguments.seconds}
    return {**settings, "solver": solver, **(asked if solver == "auto" else {"seconds": arguments.seconds})}


def _solved(arguments: argparse.Namespace, problem: Problem, settings: dict[str, Any], source: dict[str, Any],
            about: dict[str, Any], folder: Path, formulation: Formulation | None = None,
            resume: bool = False) -> dict[str, Any]:
    """Solve as the settings say and finish the run; resume: one to go on with."""
    events = folder / TENSORBOARD
    watched = (arguments.tensorboard or has_events(events)) and first_process()
    if watched:
        check_tensorboard()
    solver = settings.get("solver", "train")
    how = {"train": f"preset {settings['preset']}", "direct": "directly", "march": "marched",
           "auto": "directly, or by training where that is not enough"}[solver]
    say(arguments, f"{problem.name} by {settings['method_name']}, {how}, seed {settings['seed']}, on {device()}"
                   + _sharing(settings))
    progress = Progress(settings["stages"])

    def tell(row: dict[str, Any]) -> None:
        say_row(arguments, row, progress)

    kept: dict[str, Any] = {"checkpoint": folder / CHECKPOINT, "resume": resume, "every": arguments.checkpoint_every,
                            "report": tell if first_process() else lambda record: None}
    if solver == "direct":
        solution = run_directly(problem, settings, tell)[0]
    elif solver == "march":
        solution = run_march(problem, settings, tell, folder / KEPT, resume, Underway(arguments))[0]
    elif solver == "auto":
        solution = decide(problem, settings, **kept)
    else:
        solution = run(problem, settings, formulation=formulation, tensorboard=events if watched else None,
                       seconds=settings.get("seconds"), **kept)
    if not first_process():
        return {}
    if solution.settings.get("solver") == "direct":
        solution = brought_within(solution, tell)
    progress.close()
    for ending in solution.training.endings:
        say(arguments, ending["why"] if ending["stage"] in (*UNTRAINED, DECISION) else
            f"{ending['stage']} ended after {ending['steps']} steps: {ending['why']}")
    return _finished(arguments, solution, source, about, folder)


def _finished(arguments: argparse.Namespace, solution: Solution, source: dict[str, Any], about: dict[str, Any],
              folder: Path) -> dict[str, Any]:
    """Measure a solution and say the figures; only then write what shows it, where that is asked for."""
    wall = 0.0

    def told(result: dict[str, Any]) -> None:
        nonlocal wall
        wall = say_errors(arguments, result)

    measured = measure(solution, told)
    say_worth(arguments, measured.result)
    said = shaped(measured.result, folder, wall)
    keep(solution, folder, measured.result, about)
    if arguments.report == "full":
        present(solution, folder, measured, about)
    write_run(folder, solution.settings, source, about, "finished")
    settle(folder)
    say(arguments, f"open {folder / 'report.html'}" if arguments.report == "full" else
        f"no report, as asked; `hardpde report {folder}` writes one")
    return said


def _sharing(settings: dict[str, Any]) -> str:
    rows, points = settings.get("devices") or 1, settings["method"].get("devices", 1)
    if rows > 1:
        return f", rows shared by {rows} devices"
    return f", points shared by {points} devices" if points > 1 else ""


def compare_command(arguments: argparse.Namespace) -> dict[str, Any]:
    from hardpde.evaluation.report.comparison import write_comparison

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
        how = " at once" if settings["stages"] else " one after the other"
        seeds = f"{arguments.seeds} seeds{how}" if arguments.seeds > 1 else "1 seed"
        directly = "" if settings["stages"] else ", directly"
        say(arguments, f"{problem.name} by {settings['method_name']}{directly}, {seeds}, on {device()}")
        progress = Progress(settings["stages"])

    def keep(record: dict, solutions: list[Solution]) -> None:
        progress.close()
        record["provenance"] = about
        save_record(folder, record, solutions)
        for stage, seeds, steps, why in endings(record):
            if not why.startswith("all "):
                say(arguments, f"{stage}, seeds {seeds}: ended after {steps} steps: {why}")
        say(arguments, f"{record['method']}: {in_short(record, gradients)}; {record['seconds']:.1f} s")

    records, refused = compare(problem, methods, arguments.seeds, arguments.preset, schedule=arguments.schedule,
                               options=dict(arguments.set), steps=arguments.steps, done=done, start=start, begin=begin,
                               keep=keep, report=lambda row: say_row(arguments, row, progress))
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
    path = Path(arguments.out) if arguments.out else None
    if path is not None:
        _check_file(path, "the figures")
    found = (_bench_start if arguments.start else _bench_step)(arguments)
    if path is not None:
        path.write_text(json.dumps(finite_or_none(found), indent=1) + "\n")
    return found


def _bench_start(arguments: argparse.Namespace) -> dict[str, Any]:
    """Seconds of everything but the solving."""
    found = time_overhead(lambda: _problem(arguments)[0], arguments.method or "exact", arguments.preset or "quick")
    say(arguments, f"{found['problem']} by {found['method']}, preset {found['preset']}, not trained")
    say(arguments, overhead_lines(found))
    return found


def _bench_step(arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of a step of training."""
    problem, _ = _problem(arguments)
    found = bench(problem, arguments.method or "hc", arguments.preset or "paper", points=arguments.points,
                  solve=arguments.solve)
    say(arguments, f"{problem.name} by {found['method']}, preset {found['preset']}: {found['points']} points, "
                    f"{found['parameters']:,} weights, {found['dtype']}")
    say(arguments, timings(found))
    return found


def resume_command(arguments: argparse.Namespace) -> dict[str, Any]:
    _join(arguments)
    folder = _run_folder(arguments, "`hardpde compare … --resume --out {folder}` goes on with it")
    about, problem = read_run(folder, arguments.problem, arguments.changed)
    if about["status"] == "finished":
        check_files(folder, about)
        result = read_metrics(folder)
        settle(folder)
        say(arguments, f"'{folder}' is finished already")
        wall = say_errors(arguments, result)
        say_worth(arguments, result)
        say(arguments, f"open {folder / 'report.html'}")
        return shaped(result, folder, wall)
    if about["settings"].get("solver") not in UNTRAINED:
        make_stages(about["settings"]["stages"])
    check_options(about["settings"])
    arguments.after_stop = _after_stop(folder)
    return _solved(arguments, problem, about["settings"], about["source"], about["provenance"], folder, resume=True)


def _run_folder(arguments: argparse.Namespace, instead: str) -> Path:
    """The folder of one run; of a comparison, it is said what to do instead."""
    folder = Path(arguments.folder)
    if is_comparison(folder):
        raise ValueError(f"'{folder}' is a comparison of methods, not a run; {instead.format(folder=folder)}")
    return folder


def report_command(arguments: argparse.Namespace) -> dict[str, Any]:
    from hardpde.runs.show import show

    folder = _run_folder(arguments, "`hardpde compare … --resume --out {folder}` writes its report again")
    solution, about, metrics = read_finished(folder, arguments.problem, arguments.changed)
    show(solution, folder, metrics, metrics["certificate"], checked_reference(solution.problem), about["provenance"])
    say(arguments, f"open {folder / 'report.html'}")
    return {"report": str(folder / "report.html")}


def export_command(arguments: argparse.Namespace) -> dict[str, Any]:
    folder = _run_folder(arguments, "`hardpde solve` makes runs that can be exported")
    solution, _, _ = read_finished(folder, arguments.problem, arguments.changed)
    stem = Path(arguments.out) if arguments.out else folder / "solution"
    stem = stem.with_suffix("") if stem.suffix in (".vtu", ".pvd") else stem
    with runs_once():
        path = export_vtu(solution, stem, checked_reference(solution.problem))
    say(arguments, f"open {path} in ParaView")
    return {"file": str(path)}


def reference_command(arguments: argparse.Namespace) -> dict[str, Any]:
    problem, source = _problem(arguments)
    path = Path(arguments.out or f"{problem.name}-reference.npz")
    _check_file(path, "the reference")
    if path.exists() and not arguments.force:
        raise ValueError(f"'{path}' exists; choose another file with --out, or --force to replace it")
    reference = _reference_of(arguments, problem, source.get("name"))
    reference.save(path)
    means = {name: [float(v.mean()) for v in (values if reference.times is not None else [values])]
             for name, values in reference.values.items()}
    agreed = reference.about.get("agreed", True)
    say(arguments, f"{len(reference.x)} nodes written to {path}")
    if "reached" in reference.about:
        say(arguments, f"the last two levels {'agree to' if agreed else 'differ by'} {reference.about['reached']:.1e}"
            + ("" if agreed else f", not to the {reference.about['asked']:.0e} that was asked for: a corner, a layer "
                                 f"or a front is not resolved"))
        say(arguments, f"`hardpde solve {arguments.problem} --reference {path}` compares with it")
    else:
        say(arguments, f"{reference.about}")
    return {"problem": problem.name, "file": str(path), "nodes": len(reference.x), "about": reference.about,
            "mean": means, "status": int(not agreed)}


def _reference_of(arguments: argparse.Namespace, problem: Problem, name: str | None) -> Reference:
    """By the finite elements that a built-in problem comes with, from the known solution, or by those for any problem.
    """
    given, own = arguments.digits is not None, name in REFERENCES
    if arguments.level is not None and (not own or given):
        raise ValueError("--level is for battery-pack and airfoil, which have elements of their own; all others are "
                         "refined until two levels agree: give --digits")
    try:
        if name in REFERENCES and not given:
            level = 2 if arguments.level is None else arguments.level
            say(arguments, f"finite elements, level {level} (and one below, to measure the difference)")
            return REFERENCES[name](level)
        known = None if given else checked_reference(problem)
        if known is not None:
            return known
        return finite_elements(problem, 3 if not given else arguments.digits, lambda text: say(arguments, text))
    except ImportError as error:
        raise ValueError(str(error)) from None
