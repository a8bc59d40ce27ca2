"""A module as a function of a list of tensors: its state, and then the tensors of its arguments.

The names are those of parameters and buffers, of the arguments of `forward` (with the path to a
tensor inside one: "past.0.key"), and "output" with the path inside the result: "output.logits".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from shard_dialect.errors import ShardError
from shard_dialect.torch.graph.tensor_trees import Leaves, Tensor, arguments_of, refuse_odd

OUTPUT = "output"
LOSS = "loss"
GRADIENT, UPDATED = "gradient.", "updated."
"""Before the names of parameters whose gradients, and of buffers whose new values, are results."""


@dataclass
class FlatModule:
    """Called with tensors for `names`, it returns those of the results.

    With a `loss`, a function of the module's result and the `targets`, the results are the loss and
    the gradients of the parameters that have them.
    """

    module: Any
    arguments: Leaves
    loss: Callable[..., Tensor] | None = None
    state: dict[str, Tensor] = field(init=False)
    """Parameters and buffers by name; those that are shared, once."""
    result: Leaves | None = None
    """Known once it was called."""

    def __post_init__(self) -> None:
        self.state = {
            **dict(self.module.named_parameters()),
            **{name: each for name, each in self.module.named_buffers() if each is not None},
        }

    @classmethod
    def of(
        cls,
        module: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        loss: Callable[..., Tensor] | None,
        targets: Sequence[Any],
    ) -> FlatModule:
        """For arguments of these shapes. Raises `ShardError` if `forward` does not take them."""
        return cls(module, arguments_of(module, args, kwargs, loss, targets), loss)

    @property
    def trained(self) -> list[str]:
        """The parameters that have gradients, if there is a loss."""
        return [name for name, each in self.state.items() if self.loss and each.requires_grad]

    @property
    def updated(self) -> list[str]:
        """The buffers that a call may change, as the running mean of a batch norm."""
        if not any(each.training for each in self.module.modules()):
            return []
        return [name for name, each in self.module.named_buffers() if each is not None]

    @property
    def names(self) -> list[str]:
        """Of all tensors that it is called with."""
        return [*self.state, *self.arguments.tensors]

    @property
    def examples(self) -> list[Tensor]:
        """Tensors that it may be called with."""
        return [each.detach() for each in (*self.state.values(), *self.arguments.tensors.values())]

    @property
    def result_names(self) -> list[str]:
        """Of all tensors that it returns; known once it was called."""
        assert self.result is not None, "was called"
        gradients = [f"{GRADIENT}{name}" for name in self.trained]
        return [*self.result.tensors, *gradients, *(f"{UPDATED}{name}" for name in self.updated)]

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The tensors of the results, for those of `names`; torch traces it."""
        state = dict(zip(self.state, tensors, strict=False))
        for name in self.updated:
            state[name] = state[name].clone()
        for name in self.trained:
            state[name] = state[name].detach().requires_grad_()
        args, kwargs, targets = self.arguments.with_tensors(tensors[len(state) :])
        found = torch.func.functional_call(self.module, state, tuple(args), kwargs)
        if self.loss is not None:
            found = self.loss(found, *targets)
        self.result = Leaves.of(found, LOSS if self.loss else OUTPUT)
        refuse_odd(self.result)
        gradients = self._gradients(found, [state[name] for name in self.trained])
        updated = [state[name] for name in self.updated]
        return (*self.result.tensors.values(), *gradients, *updated)

    def _gradients(self, loss: Any, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
        if self.loss is None:
            return ()
        if not isinstance(loss, torch.Tensor) or loss.dim():
            raise ShardError(f"the loss must be a tensor of one element without dimensions: {loss}")
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        return [
            torch.zeros_like(parameter) if each is None else each
            for each, parameter in zip(found, parameters, strict=True)
        ]


def aliases_of(flat: FlatModule) -> dict[str, str]:
    """The names of parameters and buffers -> the name that each has in the state."""
    own = {id(each): name for name, each in flat.state.items()}
    every = [
        *flat.module.named_parameters(remove_duplicate=False),
        *flat.module.named_buffers(remove_duplicate=False),
    ]
    return {name: own[id(each)] for name, each in every if each is not None}
