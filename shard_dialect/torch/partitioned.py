"""`sd.torch.partition`: a module that runs on all devices of a mesh, called like the module."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from shard_dialect.errors import ShardError, first_line_of
from shard_dialect.runtime.compiled_program import CompiledProgram, Compiler
from shard_dialect.search.auto import AutoOptions
from shard_dialect.torch.engine import Engine, is_tracing
from shard_dialect.torch.function_copies import copy_functions
from shard_dialect.torch.graph.flat_module import derived_items
from shard_dialect.torch.graph.kept_values import held_tensors
from shard_dialect.torch.graph.random_draws import Rng
from shard_dialect.torch.graph.tensor_trees import Tensor
from shard_dialect.torch.module_code import shared_by_hooks
from shard_dialect.torch.plans.plan_rules import Plan


def partition(
    module: Any,
    args: Sequence[Any],
    plan: Plan | AutoOptions,
    mesh: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    loss: Callable[..., Tensor] | None = None,
    targets: Sequence[Any] = (),
    rng: Rng = "counter",
    compiler: Compiler | None = None,
) -> Partitioned:
    """Partition a `torch.nn.Module` over a mesh, for arguments of these shapes.

    The result is a module of the same class, with a state of its own. Where torch.distributed is
    initialized, each rank is a device, and all of them call this. Else the devices are threads of
    this process. With `loss`, the result computes it and the gradients. Random numbers are the same
    on every mesh; with rng="torch" they are those of the module itself. With compiler="torch" ranks
    compute by torch, on the device of each, as they do on a mesh of devices that are no CPUs, and
    with "cpu" by our own code. The options are those of `lower`. Raises `ShardError`
    where `lower` does, and for what cannot be partitioned.
    """
    if not isinstance(module, torch.nn.Module):
        raise ShardError(
            f"sd.torch.partition is for a torch.nn.Module, not for {module!r}: call it in the "
            "forward of one"
        )
    given = kwargs or {}
    engine = Engine(module, plan, mesh, loss, args, given, targets, rng, compiler=compiler)
    memo = {id(each): engine.state.tensors[name] for name, each in engine.first_state.items()}
    spaces = {name: vars(each) for name, each in module.named_modules()}
    for each in derived_items(spaces).values():  # stays one that a trace does without
        memo.setdefault(id(each), each.detach().requires_grad_(each.requires_grad).view_as(each))
    for each in pytree.tree_leaves(held_tensors(spaces)):
        if isinstance(each, torch.Tensor) and not each.is_leaf:  # torch copies no others
            memo.setdefault(id(each), each.detach())
    fill = copy_functions(module, memo)
    for each in shared_by_hooks(module):
        memo.setdefault(id(each), each)
    try:
        own = copy.deepcopy(module, memo)
    except Exception as error:  # any of the user's classes
        raise ShardError(f"the module cannot be copied: {first_line_of(error)}") from error
    fill()
    own_class: Any = type(module)
    own.__class__ = class_of(Partitioned, own_class)
    vars(own)["_engine"] = engine
    engine.become(own)
    return cast("Partitioned", own)


class Partitioned(torch.nn.Module):  # type: ignore[misc]
    """The class of what `sd.torch.partition` returns, beside your module's own.

    Its parameters and buffers are whole tensors, on ranks DTensors with this rank's shards.
    """

    _engine: Engine

    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._engine(args, kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """By the classes that ours is made of, which `copy` and `pickle` find by their names."""
        _, _, *rest = super().__reduce_ex__(protocol)
        return _new, type(self).__bases__, *rest

    @property
    def compiled(self) -> CompiledProgram:
        """The program of the shapes of `partition`: its report, its text in each form, checks."""
        return self._engine.programs[0].compiled

    def plan(self) -> dict[str, list[Any]]:
        """The placements of parameters, arguments and results by name, which is a plan, too."""
        return {name: list(each) for name, each in self._engine.programs[0].placements().items()}

    def state_dict(self, *args: Any, full: bool = True, **kwargs: Any) -> Any:
        """The state as whole tensors, under the names of the module's `state_dict`.

        On ranks it gathers, so that all call it; with `full=False` it gives DTensors.
        """
        if args or kwargs:
            return super().state_dict(*args, **kwargs)
        return self._engine.state.gathered(super().state_dict(), full)

    def load_state_dict(
        self, state_dict: Mapping[str, Tensor], strict: bool = True, assign: bool = False
    ) -> Any:
        """Take a state of whole tensors, of which ranks keep their shards, or of DTensors.

        Hooks and versions of modules count, as in torch.

        Raises `ShardError` for other shapes and, if `strict`, for missing or unknown names.
        """
        load = functools.partial(super().load_state_dict, strict=False, assign=assign)
        return self._engine.state.load_state_dict(state_dict, strict, load)

    def load_safetensors(self, path: str | Path) -> None:
        """Read the state from a file, from a `model.safetensors.index.json`, or from their folder.

        Each rank reads the slices that it holds. Raises `ShardError` as `load_state_dict` does.
        """
        self._engine.state.load_safetensors(path)


def _new(kind: Any, module_class: Any) -> Any:
    made = class_of(kind, module_class)
    return made.__new__(made)


@functools.cache
def class_of(kind: Any, module_class: Any) -> Any:
    """The class of a module of ours: its forward has the signature of the module's.

    `kind` has the method `_run`, which its calls are; a trace runs the module itself.
    """

    @functools.wraps(module_class.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return module_class.forward(self, *args, **kwargs)
        return self._run(args, kwargs)

    return type(module_class.__name__, (kind, module_class), {"forward": forward})
