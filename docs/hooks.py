"""What the site gets beside the pages in this folder (hooks of MkDocs):

- files of the repository that pages link to, as ../results/x.json or ../hardpde/y.py, so that the site stands alone;
- the gallery of examples, for <!-- gallery -->, from the first lines of examples/*.py, and for <!-- examples WORD … -->
  those whose names or first lines have one of the words;
- the public names, for <!-- api NAME … -->, with their signatures and docstrings; FLOOR.NAME for one of a floor's.
"""

import ast
import importlib
import inspect
import re
import textwrap
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((\.\./[^)#\s]+)(#[^)]*)?\)")
API = re.compile(r"<!-- api ([\w. ]+) -->")
SOURCE = {".py": "python", ".json": "json", ".toml": "toml", ".dat": "text"}
HIDDEN = "---\nsearch:\n  exclude: true\n---\n\n"


# ---------------------------------------------------------------- files of the repository


def linked(text: str) -> set[Path]:
    """Files and folders outside docs/ that a page links to, relative to the repository."""
    return {Path(target.removeprefix("../")) for target, _ in LINK.findall(text)}


def name_in_site(path: Path) -> str:
    """Where a file of the repository lies in the site: pages for text, folders as their list of files."""
    if (ROOT / path).is_dir():
        return f"files/{path.as_posix()}/index.md"
    return f"files/{path.as_posix()}" + (".md" if path.suffix in SOURCE else "")


def as_page(path: Path) -> str:
    """A file or folder of the repository as a page."""
    if (ROOT / path).is_dir():
        inside = sorted(p.name for p in (ROOT / path).iterdir() if p.is_file() and not p.name.startswith("."))
        return f"{HIDDEN}# {path}\n\n" + "\n".join(f"- `{name}`" for name in inside) + "\n"
    text = (ROOT / path).read_text()
    if path.suffix == ".md":
        return HIDDEN + text
    return f"{HIDDEN}# {path}\n\n~~~~ {SOURCE[path.suffix]}\n{text}~~~~\n"


def on_files(files, config):
    wanted, seen = set(), set()
    for file in files.documentation_pages():
        wanted |= linked(Path(file.abs_src_path).read_text())
    wanted |= {path.relative_to(ROOT) for path in (ROOT / "examples").glob("*.py")}
    while wanted - seen:
        path = (wanted - seen).pop()
        seen.add(path)
        if not (ROOT / path).exists():
            continue  # a broken link, which the strict build reports
        if (ROOT / path).is_dir() or path.suffix in (".md", *SOURCE):
            files.append(File.generated(config, name_in_site(path), content=as_page(path)))
            if path.suffix == ".md":  # pictures and pages beside it
                text = (ROOT / path).read_text()
                wanted |= {path.parent / found for found in re.findall(r"\]\(([\w.-]+)\)", text)}
        else:
            files.append(File.generated(config, name_in_site(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(text, page, config, files):
    if page.file.src_uri.startswith("files/"):
        return text
    text = LINK.sub(lambda found: f"]({name_in_site(Path(found[1].removeprefix('../')))}{found[2] or ''})", text)
    text = text.replace("<!-- gallery -->", gallery())
    text = re.sub(r"<!-- examples ([\w -]+) -->", lambda found: about(found[1].split()), text)
    return API.sub(lambda found: "\n".join(map(entry, found[1].split())), text)


# ---------------------------------------------------------------- the gallery


def examples() -> dict[str, tuple[str, str]]:
    """The examples by name: their first sentence, and their equations as the docstring writes them."""
    found = {}
    for path in sorted((ROOT / "examples").glob("*.py")):
        title, _, rest = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")
        found[path.stem] = title, textwrap.dedent(re.split(r"\n\n(?=\S)", rest.strip("\n"))[0])
    return found


def gallery() -> str:
    """Every example: a table of names and sentences, then the equations of each and a picture where there is one."""
    found = examples()
    rows = [f"| [{name}](#{name}) | {title} |" for name, (title, _) in found.items()]
    parts = ["\n".join(["| example | what it shows |", "|---|---|", *rows])]
    for name, (title, equations) in found.items():
        picture = f"images/examples/{name}.png"
        parts += [f"### {name}", f"{title} [Source](files/examples/{name}.py.md)", f"```\n{equations}\n```"]
        if (ROOT / "docs" / picture).exists():
            parts.append(f'![{name}: the domain with its named boundaries]({picture}){{ width="400" }}')
    return "\n\n".join(parts)


def about(words: list[str]) -> str:
    """The examples that mention one of the words, as links."""
    found = [f"[`{name}`](#{name})" for name, (title, _) in examples().items()
             if any(word in f"{name} {title}".lower() for word in words)]
    return ", ".join(found) or "none yet"


# ---------------------------------------------------------------- the public names


def entry(name: str) -> str:
    """One public name: its signature, docstring, fields' defaults and public methods."""
    floor, _, inside = name.rpartition(".")
    thing = getattr(importlib.import_module(f"hardpde.{floor}" if floor else "hardpde"), inside)
    lines = [f"### {name}", f"```python\n{signature(name, thing)}\n```", text_of(thing)]
    if inspect.isclass(thing):
        for method, function in public_methods(thing):
            lines.append(f"**`{method}`**{own_signature(function)}  \n{text_of(function)}")
    return "\n\n".join(lines) + "\n"


def signature(name: str, thing) -> str:
    """The call, one argument a line where it is long."""
    try:
        found = inspect.signature(thing)
    except ValueError:
        return name
    parts = [tidy(str(part)) for part in found.parameters.values()]
    named = [k for k, part in enumerate(found.parameters.values()) if part.kind is part.KEYWORD_ONLY]
    if named:
        parts.insert(named[0], "*")
    back = "" if inspect.isclass(thing) or found.return_annotation is found.empty else (
        f" -> {tidy(inspect.formatannotation(found.return_annotation))}")
    line = f"{name}({', '.join(parts)}){back}"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(parts) + f",\n){back}"


def own_signature(function) -> str:
    if isinstance(function, property):
        return ""
    found = inspect.signature(function)
    kept = [part for part in found.parameters.values() if part.name not in ("self", "cls")]
    return f" `{tidy(str(found.replace(parameters=kept)))}`"


def tidy(text: str) -> str:
    """A signature without module names and addresses of functions."""
    text = re.sub(r"<function \S+( at 0x\w+)?>|<factory>", "…", text)
    text = re.sub(r"= Hints\(.+\)", "= Hints()", text)
    text = re.sub(r"'(Solution|Surrogate|Problem)'", r"\1", text)
    return re.sub(r"\b(?:jaxlib\._jax|collections\.abc|typing|pathlib|numpy|jax|optax\._src\.base|hardpde[\w.]*)\.", "",
                  text)


def public_methods(thing) -> list:
    """Methods and properties that a class defines itself, with a docstring."""
    found = []
    for name, value in vars(thing).items():
        value = value.__func__ if isinstance(value, classmethod) else value
        value = inspect.unwrap(value) if callable(value) else value
        if (name == "__call__" or not name.startswith("_")) and (
                inspect.isfunction(value) or isinstance(value, property)) and value.__doc__:
            found.append((name, value))
    return found


def text_of(thing) -> str:
    """A docstring as paragraphs; what it says of each argument becomes an item of a list."""
    text = inspect.getdoc(thing) or ""
    try:
        names = set(inspect.signature(thing).parameters) if callable(thing) else set()
    except ValueError:
        names = set()
    several = r"[`\w]+(?:, [`\w]+)*"

    def item(found: re.Match) -> str:
        said = {name.strip("`") for name in found[2].split(", ")}
        return f"{found[1]}\n\n- **{found[2]}**{found[3] or ''}: " if said <= names else found[0]

    return re.sub(rf"(^|[.;] |\n)({several})(\([^)\n]*\))?: ", item, text)
