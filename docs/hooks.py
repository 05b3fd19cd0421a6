"""What the site gets beside the pages in this folder (hooks of MkDocs):

- files of the repository that pages link to, as ../results/x.json or ../hardpde/y.py, so that the site stands alone;
- the gallery of examples, between <!-- gallery --> markers, from the first lines of examples/*.py;
- the public names, between <!-- api GROUP --> markers, with their signatures and docstrings.
"""

import ast
import inspect
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((\.\./[^)#\s]+)(#[^)]*)?\)")
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
    return re.sub(r"<!-- api ([\w ]+) -->", lambda found: "\n".join(map(entry, found[1].split())), text)


# ---------------------------------------------------------------- the gallery


def examples() -> dict[str, tuple[str, str]]:
    """The examples by name: their first sentence, and their equations as the docstring writes them."""
    found = {}
    for path in sorted((ROOT / "examples").glob("*.py")):
        title, _, rest = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")
        found[path.stem] = title, re.split(r"\n\n(?=\S)", rest.strip("\n"))[0]
    return found


def gallery() -> str:
    """Every example: name, sentence, picture where there is one, equations."""
    parts = []
    for name, (title, equations) in examples().items():
        picture = f"images/examples/{name}.png"
        parts += [f"### {name}", f"{title} [Source](files/examples/{name}.py.md)", f"```\n{equations}\n```"]
        if (ROOT / "docs" / picture).exists():
            parts.append(f"![{name}: known solution, prediction and error]({picture})")
    return "\n\n".join(parts)


# ---------------------------------------------------------------- the public names


def entry(name: str) -> str:
    """One public name: its signature, docstring, fields' defaults and public methods."""
    import hardpde

    thing = getattr(hardpde, name)
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
    text = f"{name}{found}" if not inspect.isclass(thing) else f"{name}{found.replace(return_annotation=found.empty)}"
    text = tidy(text)
    if len(text) <= 100:
        return text
    parts = ",\n    ".join(tidy(str(part)) for part in found.parameters.values())
    marks = [k for k, part in enumerate(found.parameters.values()) if part.kind is part.KEYWORD_ONLY]
    if marks:
        listed = [tidy(str(part)) for part in found.parameters.values()]
        parts = ",\n    ".join([*listed[: marks[0]], "*", *listed[marks[0] :]])
    back = "" if inspect.isclass(thing) or found.return_annotation is found.empty else text[text.rindex(" -> ") :]
    return f"{name}(\n    {parts},\n){back}"


def own_signature(function) -> str:
    if isinstance(function, property):
        return ""
    found = inspect.signature(function)
    kept = [part for part in found.parameters.values() if part.name not in ("self", "cls")]
    return f" `{tidy(str(found.replace(parameters=kept)))}`"


def tidy(text: str) -> str:
    """A signature without module names and addresses of functions."""
    text = re.sub(r"<function \S+( at 0x\w+)?>|<factory>", "…", text)
    text = re.sub(r"Hints\(.*?\{\}\)(?=, exact)", "Hints()", text)
    text = text.replace("'", "") if "'Solution'" in text or "'Surrogate'" in text else text
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
    """A docstring as paragraphs; lines that name an argument become items of a list."""
    lines = (inspect.getdoc(thing) or "").splitlines()
    text = "\n".join(f"\n- **{found[1]}**:{found[2]}" if (found := re.match(r"([\w, ]{1,40}):( .*)", line)) else line
                     for line in lines)
    return text
