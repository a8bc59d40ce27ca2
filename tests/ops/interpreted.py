"""Ops on shards, beside the whole op: run by StableHLO's interpreter, or by XLA.

    python -m tests.ops.interpreted interpreter < lists of calls > outputs

in a child process: the interpreter ends the process when it meets what it does not know.
"""

import atexit
import pickle
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from threading import Timer
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shard_dialect.ir.bindings import ir, submodule
from shard_dialect.ir.building import stablehlo as hlo
from shard_dialect.ir.context import make_context
from shard_dialect.ir.reading.source import Source
from shard_dialect.ir.walk import body, operations
from shard_dialect.model import (
    Assignment,
    Grid,
    Reduction,
    Sharding,
    ShardingError,
    ShardingRule,
    Window,
)
from shard_dialect.model.windows import Reading
from shard_dialect.ops import PartitionedOp, Shard, record_of, rule_of
from shard_dialect.runtime.communicators.join_shards import join
from tests.conftest import ROOT

Array = NDArray[Any]
Call = tuple[str, list[Array]]
GRIDS = (Grid("g", (2, 2)), Grid("g", (2, 3)), Grid("g", (4, 2)))
DTYPES: dict[str, Any] = {
    "f32": np.float32, "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "ui8": np.uint8, "ui32": np.uint32, "ui64": np.uint64,
    "complex<f32>": np.complex64,
}  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """An op, whole and on the shards that `assignment` makes."""

    text: str
    local: Sequence[str]
    """For each device."""
    rule: ShardingRule
    assignment: Assignment
    grid: Grid
    inputs: Sequence[Array]
    operands: Sequence[int]
    """For each of the inputs, which operand it is; the others are constants."""

    def __str__(self) -> str:
        return f"{self.text}{self.rule}\n{self.grid} {self.assignment}\n{self.local[0]}"

    def calls(self) -> Iterator[Call]:
        """That of the whole op, then one for each device."""
        yield self.text, list(self.inputs)
        for rank in range(self.grid.size):
            shards = map(self._shard, self.operands, self.inputs, [rank] * len(self.inputs))
            yield self.local[rank], list(shards)

    def _shard(self, operand: int, array: Array, rank: int) -> Array:
        """What the device has of an input; of one that is added later the identity."""
        sharding = _sharding(self.rule.operand_sharding(operand, self.assignment, self.grid))
        readings = [
            (window, reading)
            for window in self.rule.windows
            if window.operand == operand
            and (reading := _reading(window, self.assignment, self.grid)) is not None
        ]
        for window, reading in readings:
            if reading.rounds:  # it is read where it is in the whole, whoever has it
                sharding = sharding.with_dim(window.dim, ())
        shard = _held(array, sharding, rank, self.grid)
        for window, reading in readings:
            device = self.grid.index_along(rank, self.assignment[window.factor])
            ends, begin = reading.outside, reading.begins[device]
            if reading.rounds:
                begin = reading.firsts[device]
                ends = max(-begin, 0), max(begin + reading.count - array.shape[window.dim], 0)
                begin = max(begin, 0)
            around = [(0, 0)] * shard.ndim
            around[window.dim] = ends
            content = _identity(window.windows.fill or "sum", shard.dtype)
            shard = np.pad(shard, around, constant_values=content)
            shard = np.take(shard, np.arange(reading.count) + begin, window.dim)
        result = self._result(0)
        if result.partial and operand in self.rule.inits:
            return np.full_like(shard, _identity(result.reduction, shard.dtype))
        return np.ascontiguousarray(shard)

    def _result(self, number: int) -> Sharding:
        return _sharding(self.rule.result_sharding(number, self.assignment, self.grid))

    def _part(self, array: Array, number: int, rank: int) -> Array:
        """A result of a device without those that are computed before its first one."""
        for dim, skips in _more_results(self.rule, self.assignment, self.grid, number).items():
            axes = _sharding(self._result(number)).split_axes[dim]
            first = skips[self.grid.index_along(rank, axes)]
            count = array.shape[dim] - max(skips)
            array = np.take(array, range(first, first + count), dim)
        return array

    def check(self, outputs: Sequence[list[Array]], tolerance: float) -> None:
        """Each device has its shard of the whole op's results, or its part of the shard."""
        whole, *devices = outputs
        for number, expected in enumerate(whole):
            sharding = self._result(number)
            for rank in range(self.grid.size):
                place = sharding.shard(rank, expected.shape, self.grid)
                group = self.grid.group_of(rank, sharding.partial)
                parts = [self._part(devices[member][number], number, member) for member in group]
                held = tuple(map(slice, expected[place].shape))  # without padding
                parts = [part[held] for part in parts]
                if sharding.partial and self.rule.inits:
                    parts.append(self.inputs[self.operands.index(number)][place])
                np.testing.assert_allclose(
                    _joined(parts, sharding.reduction),
                    expected[place],
                    rtol=tolerance,
                    atol=tolerance,
                    err_msg=str(self),
                )


def _joined(parts: Sequence[Array], reduction: Reduction) -> Array:
    made = np.empty(parts[0].shape, parts[0].dtype)
    join(parts, made, reduction)
    return made


def _sharding(found: Sharding | None) -> Sharding:
    assert found is not None, "these ops have tensors only"
    return found


def _reading(window: Window, assignment: Assignment, grid: Grid) -> Reading | None:
    axes = assignment[window.factor]
    return window.windows.reading(grid.axes_size(axes)) if axes else None


def _more_results(
    rule: ShardingRule, assignment: Assignment, grid: Grid, number: int
) -> dict[int, tuple[int, ...]]:
    """The dimensions of a result along which an op computes more, and how many devices skip."""
    readings = {each.factor: _reading(each, assignment, grid) for each in rule.windows}
    return {
        dim: reading.skips
        for dim, factors in enumerate(rule.results[number] or ())
        for factor in factors
        if (reading := readings.get(factor)) is not None and any(reading.skips)
    }


def _held(array: Array, sharding: Sharding, rank: int, grid: Grid) -> Array:
    """What device `rank` has of an array: its shard, and around it what is there of the whole."""
    ends, place = [], []
    for dim, (size, axes) in enumerate(zip(array.shape, sharding.split_axes, strict=True)):
        low, high = sharding.halo(dim)
        shard = -(-size // grid.axes_size(axes))
        ends.append((low, shard * grid.axes_size(axes) - size + high))
        begin = shard * grid.index_along(rank, axes)
        place.append(slice(begin, begin + low + shard + high))
    if not ends:
        return array
    return np.pad(array, ends, constant_values=_identity(sharding.fill, array.dtype))[tuple(place)]


def _identity(kind: Reduction, dtype: np.dtype[Any]) -> Any:
    if kind in ("sum", "bitwise_or", "bitwise_xor"):
        return 0
    if kind == "product":
        return 1
    if kind == "bitwise_and":
        return ~dtype.type(0)
    if dtype.kind == "f":
        return -np.inf if kind == "max" else np.inf
    return np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max


def trials(name: str, text: str, count: int) -> Iterator[Trial]:
    """The op, the last but the return, split in some ways: each factor alone, and at random."""
    rng = random.Random(text)
    with make_context():
        module = Source.of(text).parse()
        op, arguments = _op_of(module)
        rule = rule_of(op)
        if rule is None:
            return
        operands = [list(op.operands).index(argument) for argument in arguments]
        inputs = [draw(name, place, argument.type) for place, argument in enumerate(arguments)]
        for grid, assignment in _assignments(rule, rng, count):
            try:
                local = [_cut(text, rule, assignment, grid, rank) for rank in range(grid.size)]
            except ShardingError:  # the shards would be strided, or smaller than halos
                continue
            yield Trial(text, local, rule, assignment, grid, inputs, operands)


def _op_of(module: ir.Module) -> tuple[ir.Operation, list[ir.Value]]:
    block = body(operations(module.body)[0])
    return operations(block)[-2], list(block.arguments)


def _assignments(
    rule: ShardingRule, rng: random.Random, count: int
) -> Iterator[tuple[Grid, Assignment]]:
    free = [factor for factor in range(len(rule.sizes)) if factor not in rule.unsplit]
    seen = set()
    for number in range(count + len(free) if free else 0):
        grid = rng.choice(GRIDS)
        split: list[list[int]] = [[] for _ in rule.sizes]
        for axis in rng.sample(range(grid.rank), grid.rank):
            factor = rng.choice(free) if number >= len(free) else free[number]
            if rule.sizes[factor] % grid.axes_size([*split[factor], axis]) == 0:
                split[factor].append(axis)
        made = grid, tuple(map(tuple, split))
        kinds = {kind for factor, kind in rule.reductions if split[factor]}
        if any(split) and len(kinds) <= 1 and made not in seen:
            seen.add(made)
            yield made


def _cut(text: str, rule: ShardingRule, assignment: Assignment, grid: Grid, rank: int) -> str:
    """The op on one device's shards. Raises `ShardingError` where there are no such."""
    module = Source.of(text).parse()
    op, arguments = _op_of(module)

    def shard(value: ir.Value, sharding: Sharding | None) -> Shard:
        whole = tuple(value.type.shape)
        found = _sharding(sharding)
        devices = tuple(map(grid.axes_size, found.split_axes))
        halos = tuple(found.halo(dim) for dim in range(found.rank))

        def own(dim: int, numbers: Sequence[int]) -> ir.Value:
            return hlo.integers([numbers[grid.index_along(rank, found.split_axes[dim])]], integer)

        return Shard(whole, found.local_shape(whole, grid), own, halos, devices)

    with ir.Location.unknown():
        integer = ir.IntegerType.get_signless(64)
        operands = tuple(
            shard(value, rule.operand_sharding(place, assignment, grid))
            for place, value in enumerate(op.operands)
        )
        results = tuple(
            shard(value, rule.result_sharding(place, assignment, grid))
            for place, value in enumerate(op.results)
        )
        shapes = [list(each.shape) for each in operands + results]
        for window in rule.windows:
            reading = _reading(window, assignment, grid)
            if reading is not None:
                shapes[window.operand][window.dim] = reading.count
        for number in range(len(results)):
            for dim, more in _more_results(rule, assignment, grid, number).items():
                shapes[len(operands) + number][dim] += max(more)
        for value, shape in zip((*op.operands, *op.results), shapes, strict=True):
            type_ = ir.RankedTensorType.get(shape, value.type.element_type)
            is_cut = value in arguments or value.owner == op
            assert is_cut or type_ == value.type, "constants are not cut here"
            value.set_type(type_)
        made = [value.type for value in op.results]
        record = record_of(op)
        if op.name == "stablehlo.concatenate" and any(assignment[w.factor] for w in rule.windows):
            raise ShardingError("shards are put together by an op that is not interpreted")
        if record is not None and record.partition is not None:
            record.partition(PartitionedOp(op, rule, operands, results))
        _lower_slices(body(operations(module.body)[0]))
        function = operations(module.body)[0]
        type_ = ir.FunctionType.get([argument.type for argument in arguments], made)
        function.attributes["function_type"] = ir.TypeAttr.get(type_)
    module.operation.verify()
    return str(module)


def _lower_slices(block: ir.Block) -> None:
    """Write slices of known places as StableHLO, which is all that the interpreter knows."""
    for op in operations(block):
        if op.name == "tensor.extract_slice":
            begins, sizes = (list(op.attributes[f"static_{name}"]) for name in ("offsets", "sizes"))
            with ir.InsertionPoint(op):
                op.results[0].replace_all_uses_with(
                    hlo.slice_(op.operands[0], begins, sizes, [1] * len(sizes))
                )
            op.erase()


def draw(name: str, place: int, type_: ir.Type) -> Array:
    """Small integers; of a matrix to be solved for, a diagonal that makes it easy.

    Indices but those of 32 bits go as far as their type does.
    """
    shape, dtype = tuple(type_.shape), DTYPES[str(type_.element_type)]
    rng = np.random.default_rng(place)
    if name in ("gather", "scatter") and place == 1 and dtype not in (np.int32, np.float32):
        info = np.iinfo(dtype)
        array = rng.integers(max(info.min, -8), min(info.max, 300), shape).astype(dtype)
        extremes = [info.min, info.max, info.max // 2, info.max - 1]
        array.flat[: len(extremes)] = np.array(extremes, dtype=dtype)
        return array
    low = 0 if np.dtype(dtype).kind in "bu" else -4
    array = rng.integers(low, 2 if dtype == np.bool_ else 5, shape).astype(dtype)
    if name in ("cholesky", "triangular_solve") and place == 0:
        array = array + np.swapaxes(array, -1, -2) + 32 * np.eye(shape[-1], dtype=dtype)
    if name.startswith("batch_norm") and len(shape) == 1:
        array = abs(array)
    return array


def run(runner: str, calls: Sequence[Call]) -> list[list[Array]]:
    """What each call gives."""
    child = _child(runner)
    assert child.stdin
    assert child.stdout
    outputs: list[list[Array]] = []
    with suppress(BrokenPipeError, EOFError), _bounded(child, 600):
        pickle.dump(list(calls), child.stdin)
        child.stdin.flush()
        while len(outputs) < len(calls):
            outputs.append(pickle.load(child.stdout))
        return outputs
    _child.cache_clear()
    child.communicate()
    raise AssertionError(f"{calls[len(outputs)][0]}\n{runner} ended with {child.returncode}")


@contextmanager
def _bounded(child: "subprocess.Popen[bytes]", seconds: float) -> Iterator[None]:
    """Kill the child if this takes longer."""
    timer = Timer(seconds, child.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@cache
def _child(runner: str) -> "subprocess.Popen[bytes]":
    """One for all calls, until it ends: its imports take longer than most of them."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.ops.interpreted", runner],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(child.communicate)
    return child


def _interpreter() -> Callable[[str, list[Array]], list[Array]]:
    stablehlo = submodule("_mlir_libs._stablehlo")
    context = ir.Context()
    stablehlo.register_dialect(context, load=True)
    modules: dict[str, ir.Module] = {}

    def call(text: str, inputs: list[Array]) -> list[Array]:
        if text not in modules:
            modules[text] = ir.Module.parse(text, context)
        types = operations(modules[text].body)[0].attributes["function_type"].value.inputs
        with context, ir.Location.unknown():
            given = [
                ir.DenseElementsAttr.get(array, type=type_, signless=False)
                for array, type_ in zip(inputs, types, strict=True)
            ]
            return [np.array(each) for each in stablehlo.eval_module(modules[text], given)]

    return call


def _xla() -> Callable[[str, list[Array]], list[Array]]:
    import jax
    from jax.extend.backend import get_backend
    from jaxlib import _jax

    client = get_backend("cpu")
    devices = _jax.DeviceList(tuple(client.local_devices()[:1]))
    programs: dict[str, Any] = {}
    jax.config.update("jax_enable_x64", True)

    def call(text: str, inputs: list[Array]) -> list[Array]:
        if text not in programs:
            programs[text] = client.compile_and_load(text, devices, _jax.CompileOptions())
        return [np.asarray(each) for each in programs[text].execute([*map(jax.device_put, inputs)])]

    return call


if __name__ == "__main__":
    evaluate = {"interpreter": _interpreter, "xla": _xla}[sys.argv[1]]()
    with suppress(EOFError):
        while True:
            for each in pickle.load(sys.stdin.buffer):
                sys.stdout.buffer.write(pickle.dumps(evaluate(*each)))
                sys.stdout.buffer.flush()
