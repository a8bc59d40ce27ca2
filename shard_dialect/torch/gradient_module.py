"""The gradients of a module as a module with the same state, so that they have derivatives, too.

y = f(x)    ->    gradients of f's parameters and of x, for weights of the elements of y
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from shard_dialect.errors import ShardError
from shard_dialect.torch.graph.flat_module import OUTPUT
from shard_dialect.torch.graph.kept_values import Snapshot
from shard_dialect.torch.graph.tensor_trees import Leaves
from shard_dialect.torch.module_code import spaces_of


def gradients_of(module: Any) -> Any:
    """A module with the tensors of another, which it shares.

    Beside the arguments it takes weights of the results, by the keyword `type(module).weights`: a
    list with `None` for a result that has no part in the gradients. Its result is the gradients of
    its parameters by their names, and a list of those of the tensors among the arguments; where
    there is none, it is `None`.
    """
    kind: Any = type(module)
    kind = _class_of(kind)
    made = object.__new__(kind)
    vars(made).update(vars(module))
    return made


def without_results(plan: Mapping[str, Any]) -> dict[str, Any]:
    """A plan without what it says of results."""
    return {
        key: without_results(each) if isinstance(each, Mapping) else each
        for key, each in plan.items()
        if not key.startswith(OUTPUT)
    }


@functools.cache
def _class_of(module_class: Any) -> Any:
    name = f"weights_of_{getattr(module_class, 'weights', 'results')}"

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        weights = kwargs.pop(name)
        before = Snapshot(spaces_of(self, {}))
        found = Leaves.of(module_class.forward(self, *args, **kwargs)).tensors.values()
        before.restore({})  # the call itself has left that
        if any(each is not None for each in weights[len(found) :]):
            raise ShardError(
                "gradients of a tensor that forward leaves beside its result have no derivatives: "
                "return it"
            )
        pairs = [each for each in zip(found, weights, strict=False) if each[1] is not None]
        own = {name: each for name, each in self.named_parameters() if each.requires_grad}
        leaves = pytree.tree_leaves((args, dict(sorted(kwargs.items()))))
        given = [each for each in leaves if isinstance(each, torch.Tensor)]
        wanted = [each for each in given if each.requires_grad]
        results, cotangents = zip(*pairs, strict=True)
        inputs = [*own.values(), *wanted]
        derived = torch.autograd.grad(
            results, inputs, cotangents, create_graph=True, allow_unused=True
        )
        of = {id(each): gradient for each, gradient in zip(inputs, derived, strict=True)}
        return {name: of[id(each)] for name, each in own.items()}, [
            of.get(id(each)) for each in given
        ]

    signature = inspect.signature(module_class.forward)
    keyword = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY)
    *most, last = signature.parameters.values()
    has_rest = last.kind is inspect.Parameter.VAR_KEYWORD
    every = [*most, keyword, last] if has_rest else [*most, last, keyword]
    forward.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
    methods = {"forward": forward, "weights": name}
    return type(f"gradients of {module_class.__name__}", (module_class,), methods)
