"""Every collective on every element type, with what each device must get of it.

    python -m tests.runtime.collective_cases --backend=devices
    mpiexec -n 4 python -m tests.runtime.collective_cases --backend=mpi

runs all that is not refused, and prints what differed.
"""

import argparse
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from shard_dialect.errors import ShardError
from shard_dialect.ir.bindings import spelled
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.model import Grid
from shard_dialect.passes.framework.pipeline import run_pipeline
from shard_dialect.runtime.communicators.launched_world import BACKENDS, world_of
from shard_dialect.runtime.communicators.world import InProcess, World
from shard_dialect.runtime.compile import compile_sharded
from shard_dialect.runtime.program_cache import Cache

Array = NDArray[Any]
GRID = Grid("g", (2, 2))
SHAPE = (4, 8)

DTYPES: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "i1": np.bool_,
    "i4": ml_dtypes.int4, "ui32": np.uint32, "index": np.int64, "complex<f32>": np.complex64,
    "complex<f64>": np.complex128,
}  # fmt: skip

JOIN: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add, "product": np.multiply, "max": np.maximum, "min": np.minimum,
    "average": np.add, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}  # fmt: skip

_IN_HALVES = ("f32", "bf16", "i8", "ui32")
"""Element types that collectives are also begun and waited for with: all, some, none in MPI."""

Got = Callable[[Sequence[Array], int], Array]
"""What the member at a place gets of what all members of its group have."""


@dataclass(frozen=True)
class Case:
    """A collective: its attributes, the shape that it makes of `SHAPE`, and what it means."""

    op: str
    axes: tuple[int, ...]
    attributes: dict[str, str]
    shape: tuple[int, ...]
    got: Got
    reduction: str = ""

    of_all_backends: ClassVar[bool] = True
    """Whether XLA has it, too."""

    @property
    def name(self) -> str:
        """Of its row in the table."""
        kind = self.op.partition(".")[2]
        return f"{kind} {self.reduction}".strip()

    def text(self, element: str, result: int) -> str:
        """The op's text, with `%r<result>` for its result."""
        source, target = (_type(shape, element) for shape in (SHAPE, self.shape))
        inside = ", ".join(f"{key} = {value}" for key, value in self.attributes.items())
        return f'%r{result} = "{self.op}"(%x) {{{inside}}} : ({source}) -> {target}'

    def started(self, element: str, result: int) -> str:
        """The same in two halves, with a computation between them."""
        source, target = (_type(shape, element) for shape in (SHAPE, self.shape))
        inside = ", ".join(f"{key} = {value}" for key, value in self.attributes.items())
        return (
            f'%s{result} = "mesh.start"(%x) '
            f'{{collective = {{name = "{self.op}", {inside}}}}} : ({source}) -> {target}\n'
            f'  %r{result} = "mesh.done"(%s{result}) : ({target}) -> {target}'
        )

    def expected(self, inputs: Sequence[Array], rank: int) -> Array:
        group = GRID.group_of(rank, self.axes)
        return self.got([inputs[each] for each in group], group.index(rank))


@dataclass(frozen=True)
class Sent(Case):
    """What the first of a group sends the last, past an exchange of all that comes in between."""

    of_all_backends: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "send/recv"

    def text(self, element: str, result: int) -> str:
        type_, n = _type(SHAPE, element), GRID.axes_size(self.axes)
        where = f"on @g grid_axes = {list(self.axes)}"
        mine = [GRID.index_along(rank, self.axes) for rank in range(GRID.size)]
        listed = f"dense<{mine}> : tensor<{GRID.size}xindex>"
        passed = ", ".join(f"{key} = {value}" for key, value in _permuted(self.axes).items())
        r, types = f"%r{result}", ", index" * len(self.axes)
        if not self.attributes["computed"]:
            first, last, types = "0", "1", ""
        else:
            first, last = f"{r}first", f"{r}last"
        to = f"destination = [{', '.join([last] * len(self.axes))}]"
        source = f" source = [{', '.join([first] * len(self.axes))}]"
        source, given = (source, types) if self.attributes["named"] else ("", "")
        return f"""{r}rank = shard.process_linear_index on @g : index
  {r}places = arith.constant {listed}
  {r}place = tensor.extract {r}places[{r}rank] : tensor<{GRID.size}xindex>
  {r}zero = arith.constant 0 : index
  {r}one = arith.constant 1 : index
  {r}size = arith.constant {GRID.size} : index
  {r}end = arith.constant {n - 1} : index
  {r}first = arith.divui {r}place, {r}size : index
  {r}last = arith.addi {r}first, {r}one : index
  {r}sends = arith.cmpi eq, {r}place, {r}zero : index
  {r}gets = arith.cmpi eq, {r}place, {r}end : index
  scf.if {r}sends {{
    %sent = shard.send %x {where} {to} : ({type_}{types}) -> {type_}
  }}
  {r}passed = "mesh.collective_permute"(%x) {{{passed}}} : ({type_}) -> {type_}
  {r} = scf.if {r}gets -> {type_} {{
    %got = shard.recv %x {where}{source} : ({type_}{given}) -> {type_}
    scf.yield %got : {type_}
  }} else {{
    scf.yield {r}passed : {type_}
  }}"""


@dataclass(frozen=True)
class Computed(Case):
    """A collective whose root the program computes as it runs."""

    of_all_backends: ClassVar[bool] = False

    def text(self, element: str, result: int) -> str:
        r, root = f"%r{result}root", self.attributes["root"]
        unknown = ", ".join([str(-(2**63))] * len(self.axes))
        plain = super().text(element, result).replace(root, f"array<i64: {unknown}>")
        given = ", ".join([r] * len(self.axes))
        types = ", index" * len(self.axes)
        source = _type(SHAPE, element)
        return f"""{r}rank = shard.process_linear_index on @g : index
  {r}size = arith.constant {GRID.size} : index
  {r}zero = arith.divui {r}rank, {r}size : index
  {r}one = arith.constant 1 : index
  {r} = arith.addi {r}zero, {r}one : index
  {plain.replace("(%x)", f"(%x, {given})").replace(f"({source})", f"({source}{types})")}"""


def _sent(axes: tuple[int, ...], *, named: str = "", computed: str = "") -> Case:
    return Sent(
        "shard.send", axes, {"named": named, "computed": computed}, SHAPE,
        lambda all_, at: all_[0] if at == len(all_) - 1 else all_[at - 1],
    )  # fmt: skip


def _type(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def cases() -> list[Case]:
    found = []
    for axes, dim in (((0,), 0), ((1, 0), 1)):
        found += _moves(axes, dim)
        for kind in JOIN:
            found += _reductions(kind, axes, dim)
    rooted = [case for case in found if "root" in case.attributes]
    return [*found, *(Computed(**vars(case)) for case in rooted)]


def _on(axes: tuple[int, ...], **more: str) -> dict[str, str]:
    listed = f": {', '.join(map(str, axes))}" if axes else ""
    return {"grid": "@g", "grid_axes": f"array<i16{listed}>", **more}


def _moves(axes: tuple[int, ...], dim: int) -> list[Case]:
    n, size = GRID.axes_size(axes), SHAPE[dim]
    root, last = _last(axes), n - 1
    grown = tuple(each * n if at == dim else each for at, each in enumerate(SHAPE))
    cut = tuple(each // n if at == dim else each for at, each in enumerate(SHAPE))
    gather = {"gather_axis": f"{dim} : index"}
    scatter = {spelled("scatter_axis"): f"{dim} : index", "root": root}
    low, high = 1, min(2, size // 4)
    halo = {
        "split_axes": f"#shard<axisarray{[[]] * dim + [list(axes)]}>",
        "static_halo_sizes": f"array<i64: {low}, {high}>",
        "grid": "@g",
    }
    rotate = {"shift_axis": "0 : index", "offset": "1 : i64", "rotate": "unit"}
    back = {"shift_axis": "0 : index", "offset": "-1 : i64"}
    return [
        Case("shard.all_gather", axes, _on(axes, **gather), grown,
             lambda all_, _: np.concatenate(all_, dim)),
        Case("shard.all_slice", axes, _on(axes, slice_axis=f"{dim} : index"), cut,
             lambda all_, at: np.split(all_[at], n, dim)[at]),
        Case("shard.gather", axes, _on(axes, root=root, **gather), grown,
             lambda all_, at: np.concatenate(all_, dim) * (at == last)),
        Case("shard.scatter", axes, _on(axes, **scatter), cut,
             lambda all_, at: np.split(all_[last], n, dim)[at]),
        Case("shard.update_halo", axes, halo, SHAPE,
             lambda all_, at: _halo(all_, at, dim, low, high)),
        Case("shard.broadcast", axes, _on(axes, root=root), SHAPE, lambda all_, _: all_[last]),
        Case("shard.shift", axes, _on(axes, **rotate), SHAPE, lambda all_, at: all_[at ^ 1]),
        Case("shard.shift", axes, _on(axes, **back), SHAPE, _before),
        Case("mesh.collective_permute", axes, _permuted(axes), SHAPE,
             lambda all_, at: all_[at - 1]),
        *(_all_to_all(axes, dim, other) for other in sorted({1, dim})),
        _sent(axes, named="yes" if dim else ""),
        _sent(axes, named="yes", computed="yes"),
    ]  # fmt: skip


def _permuted(axes: tuple[int, ...]) -> dict[str, str]:
    """Each member gives to the next one."""
    n = GRID.axes_size(axes)
    to = ", ".join(str((place + 1) % n) for place in range(n))
    return {"cluster": "@g", "mesh_axis": str(list(axes)), "permutation": f"array<i64: {to}>"}


def _last(axes: tuple[int, ...]) -> str:
    """The attribute of a root that is the last of its group."""
    return f"array<i64: {', '.join(['1'] * len(axes))}>"


def _all_to_all(axes: tuple[int, ...], joined: int, split: int) -> Case:
    n, shape = GRID.axes_size(axes), list(SHAPE)
    shape[joined] *= n
    shape[split] //= n
    ends = {"concat_axis": f"{joined} : index", "split_axis": f"{split} : index"}
    return Case(
        "shard.all_to_all", axes, _on(axes, **ends), tuple(shape),
        lambda all_, at: np.concatenate([np.split(each, n, split)[at] for each in all_], joined),
    )  # fmt: skip


def _before(all_: Sequence[Array], place: int) -> Array:
    """A shift by -1 along axis 0, the minor one: who is second along it gets nothing."""
    return all_[place + 1] if place % 2 == 0 else np.zeros_like(all_[place])


def _halo(all_: Sequence[Array], place: int, dim: int, low: int, high: int) -> Array:
    shards = [np.moveaxis(each, dim, 0) for each in all_]
    own = [each[low : len(each) - high] for each in shards]
    result = shards[place].copy()
    before = np.concatenate(own[:place])[-low:] if place else own[0][:0]
    after = np.concatenate(own[place + 1 :])[:high] if place + 1 < len(own) else own[0][:0]
    result[low - len(before) : low] = before
    end = len(result) - high
    result[end : end + len(after)] = after
    return np.moveaxis(result, 0, dim)


def _reductions(kind: str, axes: tuple[int, ...], dim: int) -> list[Case]:
    n = GRID.axes_size(axes)
    cut = tuple(each // n if at == dim else each for at, each in enumerate(SHAPE))
    how = {"reduction": f"#shard<partial {kind}>"}
    scatter = {spelled("scatter_axis"): f"{dim} : index"}

    def joined(all_: Sequence[Array]) -> Array:
        whole = reduce(JOIN[kind], all_)
        return (whole / len(all_)).astype(whole.dtype) if kind == "average" else whole

    return [
        Case("shard.all_reduce", axes, _on(axes, **how), SHAPE, lambda all_, _: joined(all_), kind),
        Case("shard.reduce_scatter", axes, _on(axes, **how, **scatter), cut,
             lambda all_, at: np.split(joined(all_), n, dim)[at], kind),
        Case("shard.reduce", axes, _on(axes, **how, root=_last(axes)), SHAPE,
             lambda all_, at: joined(all_) * (at == n - 1), kind),
    ]  # fmt: skip


def program(chosen: Sequence[Case], element: str, *, started: bool) -> str:
    """A module in the local form that gives the result of every case."""
    types = ", ".join(_type(case.shape, element) for case in chosen)
    results = ", ".join(f"%r{number}" for number in range(len(chosen)))
    lines = []
    for number, case in enumerate(chosen):
        is_whole = case.op in ("shard.all_slice", "shard.send") or isinstance(case, Computed)
        in_halves = started and not is_whole
        lines.append((case.started if in_halves else case.text)(element, number))
    body = "\n  ".join([*lines, f"return {results} : {types}"])
    return (
        "shard.grid @g(shape = 2x2)\n"
        f"func.func @main(%x: {_type(SHAPE, element)}) -> ({types})\n"
        f'    attributes {{mesh.form = "local"}} {{\n  {body}\n}}\n'
    )


@functools.cache
def refusals(element: str) -> dict[str, str]:
    """Why rows of the table cannot be lowered, of those that cannot."""
    found = {}
    for name, case in {case.name: case for case in cases()}.items():
        with make_context():
            source = Source.of(program([case], element, started=False))
            try:
                run_pipeline(source.parse(), "lower")
            except ShardError as error:
                found[name] = error.message
    return found


def refused(element: str, folder: Path) -> list[str]:
    """The rows that cannot be lowered, as a file of `folder` has them once it has been asked."""
    file = folder / f"{element}.refused"
    if not file.exists():
        made = file.with_suffix(f".{os.getpid()}")
        made.write_text("\n".join(refusals(element)))
        made.rename(file)
    return file.read_text().splitlines()


def programs(element: str, refused: Sequence[str]) -> Iterator[tuple[bool, list[Case], Source]]:
    """Of all cases that are not refused: whether they are begun early, which, and their text."""
    chosen = [case for case in cases() if case.name not in refused]
    for started in (False, True) if element in _IN_HALVES else (False,):
        yield started, chosen, Source.of(program(chosen, element, started=started))


def compile_all(elements: Iterable[str], folder: Path, *, native: bool) -> None:
    """Keep in `folder` what `differences` compiles and asks."""
    for element in elements:
        for _, _, source in programs(element, refused(element, folder)):
            with make_context():
                compile_sharded(source, cache=Cache(folder), native_mpi=native)


def inputs_of(element: str) -> list[Array]:
    """What each device has. Small whole numbers, so that every order of a sum is exact."""
    generator = np.random.default_rng(3)
    drawn = generator.integers(-3, 4, (GRID.size, *SHAPE))
    if element.startswith("complex"):
        drawn = drawn + 1j * generator.integers(-3, 4, drawn.shape)
    return [each.astype(DTYPES[element]) for each in drawn]


def differences(world: World, element: str, folder: Path, *, native: bool) -> list[str]:
    """The cases of an element type that give another result on a device of this process.

    One process compiles, the others load what it keeps in `folder`.
    """
    left_out = world.share(refused(element, folder) if world.speaks else [])
    inputs = inputs_of(element)
    found = []
    for started, chosen, source in programs(element, left_out):
        for compiles in (True, False):
            if world.speaks == compiles:
                with make_context():
                    executable = compile_sharded(source, cache=Cache(folder), native_mpi=native)
            world.share(())
        outputs = world.run(executable, [[inputs[rank]] for rank in world.ranks])
        for rank, results in zip(world.ranks, outputs, strict=True):
            for case, result in zip(chosen, results, strict=True):
                if not np.array_equal(result, case.expected(inputs, rank)):
                    half = " begun" if started else ""
                    text = case.text(element, 0)
                    found.append(f"{element}{half} on {rank}: {text}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=BACKENDS, default="devices")
    parser.add_argument("--kept", type=Path, help="where compiled programs are kept")
    parser.add_argument("--elements", nargs="+", choices=DTYPES, default=list(DTYPES))
    options = parser.parse_args()
    joining = world_of(options.backend)
    peers = joining() if joining else None
    world: World = peers or InProcess(GRID.size)
    native = options.backend == "mpi"
    with TemporaryDirectory() as own:
        folder = Path(world.share([str(options.kept or own)] if world.speaks else [])[0])
        found = [
            each
            for element in options.elements
            for each in differences(world, element, folder, native=native)
        ]
        found = world.share(found)
    if world.speaks:
        print(
            "\n".join(found) or f"{len(options.elements)} element types: every collective is right"
        )
    if peers:
        peers.close()
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
