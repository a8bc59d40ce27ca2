"""No modules import each other in a circle. The layers are contracts of import-linter's."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "shard_dialect"
MODULES = sorted(PACKAGE.rglob("*.py"))


def module_of(path: Path) -> str:
    name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


def imported_modules(path: Path) -> set[str]:
    """Ours, those that are imported late or for types alone included."""
    known = {module_of(each) for each in MODULES}
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in known:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & known) | ({node.module} if names - known else set())
    return found - {module_of(path)}


def test_there_is_no_circle_of_imports() -> None:
    """Beside the package itself, which gives the names of `api` to those that ask for them."""
    graph = {module_of(path): imported_modules(path) for path in MODULES if path != MODULES[0]}
    tuple(TopologicalSorter(graph).static_order())  # raises a CycleError


def test_symbols_are_spelled_in_one_place() -> None:
    """A name may be any text, which `as_symbol` quotes: nobody else writes `@` before a name."""
    by_hand = [
        f"{path.relative_to(PACKAGE)}:{each.lineno}"
        for path in MODULES
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.JoinedStr) and _has_name_after_at(each)
    ]
    assert by_hand == [f"errors.py:{_line_of_as_symbol()}"]


def _has_name_after_at(text: ast.JoinedStr) -> bool:
    pairs = zip(text.values, text.values[1:], strict=False)
    return any(
        isinstance(before, ast.Constant) and str(before.value).endswith("@") for before, _ in pairs
    )


def _line_of_as_symbol() -> int:
    functions = [
        each
        for each in ast.walk(ast.parse((PACKAGE / "errors.py").read_text()))
        if isinstance(each, ast.FunctionDef) and each.name == "as_symbol"
    ]
    return functions[0].body[-1].lineno
