"""Imports go only downward through the layers of docs/design.md."""

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "shard_dialect"
LAYERS = (
    ("errors",),
    ("processes",),
    ("model",),
    ("planner",),
    ("propagation",),
    ("ir",),
    ("rules",),
    ("passes",),
    ("emit",),
    ("codegen",),
    ("analysis",),
    ("search",),
    ("runtime",),
    ("plugins",),
    ("jax", "torch", "explorer"),
    ("api",),
    ("testing",),
    ("cli",),
    ("opt", "run", "report", "fuzz"),
)
"""Bottom to top. The package itself imports nothing of ours until a name of `api` is asked for."""
RANKS = {name: rank for rank, names in enumerate(LAYERS) for name in names}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE / "__pycache__")


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    own = layer_of(path)
    if own == "__init__":
        return
    for name in imported(path):
        if not name.startswith("shard_dialect.") or name == "shard_dialect.__version__":
            continue
        layer = name.split(".")[1]
        assert RANKS[layer] <= RANKS[own], f"{own} imports {name}"


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


def test_no_two_modules_have_one_name() -> None:
    """Beside packages, a pass's folder for one, and the classless dialects', which MLIR names."""
    paths = [path for path in MODULES if path.parent.name != "classless"]
    counts = Counter(path.stem for path in paths if path.stem != "__init__")
    assert not {name for name, count in counts.items() if count > 1}


def test_no_folder_is_large() -> None:
    counts = Counter(path.parent for path in MODULES)
    assert max(counts.values()) <= 16


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_mlir_is_found_in_one_place(path: Path) -> None:
    if path == PACKAGE / "ir" / "bindings.py":
        return
    assert not [name for name in imported(path) if name.split(".")[0] in ("mlir", "torch_mlir")]


@pytest.mark.parametrize("layer", ["model", "propagation"])
def test_needs_no_mlir(layer: str) -> None:
    outside = {name for path in (PACKAGE / layer).rglob("*.py") for name in imported(path)}
    assert not [name for name in outside if name.startswith("shard_dialect.ir")]


def test_optional_packages_are_imported_by_their_backends_only() -> None:
    users = {
        path.name
        for path in MODULES
        for name in imported(path)
        if name.split(".")[0] in ("mpi4py", "torch", "jax")
    }
    assert users == {
        "mpi_world.py",
        "torch_world.py",
        "torch_executable.py",
        "emulated_distributed.py",
        "with_mpi4py.py",
        "with_torch.py",
        "by_xla.py",
        "local_function.py",
        "tensor_trees.py",
        "flat_module.py",
        "export_graph.py",
        "parallel_styles.py",
        "placed_names.py",
        "held_state.py",
        "rank_tensors.py",
    }
