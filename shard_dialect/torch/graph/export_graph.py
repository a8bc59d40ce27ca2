"""torch's graph of a module, in which some values inside are marked.

A mark is an op that returns its operand. It becomes the annotation of that value.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from shard_dialect.errors import ShardError, first_line_of
from shard_dialect.torch.graph.flat_module import FlatModule
from shard_dialect.torch.graph.tensor_trees import Tensor

MARK = "shard_dialect.mark"
Marker = Callable[[Tensor], Tensor]


def _mark(x: torch.Tensor, number: int) -> torch.Tensor:
    return x.clone()


mark = torch.library.custom_op("shard_dialect::mark", _mark, mutates_args=())
"""The operand, marked by a number."""
mark.register_fake(lambda x, number: torch.empty_like(x))
mark.register_autograd(lambda _, gradient: (gradient, None))


def export(flat: FlatModule) -> Any:
    """The `torch.export.ExportedProgram` of a module. Raises `ShardError` if there is none."""
    examples = flat.examples
    if any(each.is_meta for each in examples):
        with FakeTensorMode():
            examples = [_without_data(each) for each in examples]
    try:
        return _checked(_exported(flat, examples))
    except ShardError:
        raise
    except Exception as error:  # any that the user's module, or torch for it, ends with
        raise ShardError(f"torch.export cannot trace the module: {first_line_of(error)}") from error


def _exported(flat: FlatModule, examples: Sequence[Tensor]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of itself
        if flat.loss is not None:  # torch.export itself traces no call of autograd
            traced = make_fx(flat, _decompositions(), tracing_mode="fake")(*examples)
            return torch.export.export(traced, tuple(examples))
        return torch.export.export(_Forward(flat), tuple(examples))


def _checked(program: Any) -> Any:
    _refuse_random(program)
    _end_inside(program)
    return program


class _Forward(torch.nn.Module):  # type: ignore[misc]
    """A function as a module, which torch.export wants."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Tensor) -> Any:
        return self.function(*tensors)


def _without_data(tensor: Tensor) -> Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")


def _refuse_random(program: Any) -> None:
    for node in program.graph.nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags and not _drops_nothing(node):
            raise ShardError(
                f"the module draws random numbers ({node.target}), and each rank would draw its "
                "own: call .eval(), or set the dropout to 0",
                _location(node),
            )


def _end_inside(program: Any) -> None:
    """Let slices end with the tensor: of those written to, the importer lists all indices."""
    aten = torch.ops.aten
    first = {aten.slice.Tensor: 1, aten.slice_scatter.default: 2}
    for node in program.graph.nodes:
        at = first.get(node.target)
        if at is None or len(node.args) <= at + 2 or not isinstance(node.args[at + 2], int):
            continue
        size = node.args[0].meta["val"].shape[node.args[at]]
        node.args = (*node.args[: at + 2], min(node.args[at + 2], size), *node.args[at + 3 :])


def _drops_nothing(node: Any) -> bool:
    """Whether it is a dropout of probability 0, or one that is not training."""
    name = str(node.target)
    return "dropout" in name and (not node.args[1] or node.args[2] is False)


def _location(node: Any) -> str | None:
    """Where the call of the op stands, in Python."""
    frames = re.findall(r'File "(.*)", line (\d+)', node.meta.get("stack_trace") or "")
    return ":".join(frames[-1]) if frames else None


def _decompositions() -> dict[Any, Any]:
    """Those of derivatives, many of which the importer does not know."""
    table = torch._decomp.decomposition_table
    aten = torch.ops.aten
    return {
        **{op: each for op, each in table.items() if "backward" in str(op)},
        aten.slice_backward.default: _slice_backward,
        aten.select_backward.default: _select_backward,
    }


def _slice_backward(
    gradient: Tensor, sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Tensor:
    """Padding; torch's own writes into zeros, which is a scatter."""
    size, dim = sizes[dim], dim % len(sizes)
    begin, stop, _ = slice(start, end, step).indices(size)
    if step > 1:
        spread = gradient.unsqueeze(dim + 1)
        spread = torch.constant_pad_nd(spread, _padding(spread.dim(), dim + 1, 0, step - 1))
        gradient = spread.flatten(dim, dim + 1).narrow(dim, 0, stop - begin)
    return torch.constant_pad_nd(gradient, _padding(len(sizes), dim, begin, size - stop))


def _select_backward(gradient: Tensor, sizes: Sequence[int], dim: int, index: int) -> Tensor:
    size, dim = sizes[dim], dim % len(sizes)
    before = index % size
    padding = _padding(len(sizes), dim, before, size - before - 1)
    return torch.constant_pad_nd(gradient.unsqueeze(dim), padding)


def _padding(rank: int, dim: int, low: int, high: int) -> list[int]:
    """As torch wants it: of the last dimension first."""
    return [0, 0] * (rank - 1 - dim) + [low, high]


@contextmanager
def hooked(
    modules: Sequence[tuple[Any, Callable[[Any, Any], Any] | None, Callable[[Any], Any] | None]],
) -> Iterator[None]:
    """Within a `with` block, change the inputs and outputs of modules.

    Of each module, a function from its arguments to others, and one from its result to another.
    """
    with ExitStack() as stack:
        for module, before, after in modules:
            if before is not None:
                handle = module.register_forward_pre_hook(_before(before), with_kwargs=True)
                stack.callback(handle.remove)
            if after is not None:
                handle = module.register_forward_hook(_after(after))
                stack.callback(handle.remove)
        yield


def _before(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda _, args, kwargs: change(args, kwargs)


def _after(change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda module, args, result: change(result)


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor, which may be marked."""
    return isinstance(value, torch.Tensor)
