"""The classes of modules that are changed in place, with the methods of torch's `FSDPModule`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from shard_dialect.errors import ShardError
from shard_dialect.runtime.compiled_program import CompiledProgram
from shard_dialect.torch.engine import Engine, one_after_another
from shard_dialect.torch.in_place.call import Call
from shard_dialect.torch.module_program import ModuleProgram


class Distributed(torch.nn.Module):  # type: ignore[misc]
    """A module that `parallelize_module` or `fully_shard` has changed."""

    _engine: Engine | None

    @one_after_another
    def _run(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return Call(self, args, kwargs).run()

    @property
    def compiled(self) -> CompiledProgram:
        """The program of the first call: its report, its text in each form, checks."""
        return self._first_program().compiled

    def plan(self) -> dict[str, list[Any]]:
        """The placements of parameters, arguments and results by name, for `sd.torch.partition`."""
        return {name: list(each) for name, each in self._first_program().placements().items()}

    def _first_program(self) -> ModuleProgram:
        if self._engine is None:
            raise ShardError("the module is compiled at its first call, and was not called yet")
        return self._engine.programs[0]


class _Handle:
    """What `unshard(async_op=True)` returns."""

    def wait(self) -> None:
        """Nothing is waited for."""


class FSDPModule(Distributed):
    """A module that `fully_shard` has changed: the methods of torch's class of this name.

    What those say of when parameters are gathered and gradients are summed changes no number, and
    the compiler decides: they do nothing here.
    """

    def unshard(self, async_op: bool = False) -> _Handle | None:
        """Parameters stay DTensors: the program gathers them. `full_tensor()` gathers one."""
        return _Handle() if async_op else None

    def reshard(self) -> None:
        """Parameters are never whole outside of the program."""

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide the sums of gradients by this, on ranks, and not by their number."""
        self.__dict__["_divide_factor"] = factor

    def set_modules_to_forward_prefetch(self, modules: Sequence[Any]) -> None:
        """The program gathers parameters in the order that its schedule has."""
        self._check_are_ours(modules)

    def set_modules_to_backward_prefetch(self, modules: Sequence[Any]) -> None:
        """The program gathers parameters in the order that its schedule has."""
        self._check_are_ours(modules)

    @staticmethod
    def _check_are_ours(modules: Sequence[Any]) -> None:
        for each in modules:
            if not isinstance(each, FSDPModule):
                raise ShardError(
                    f"{type(each).__name__} is no FSDPModule: call fully_shard for it first"
                )


def _hint(name: str) -> Any:
    def method(self: FSDPModule, *args: Any, **kwargs: Any) -> None:
        pass

    method.__name__ = name
    method.__doc__ = "It changes no number: the compiler decides."
    return method


def _refusal(name: str, way: str) -> Any:
    def method(self: FSDPModule, *args: Any, **kwargs: Any) -> None:
        raise ShardError(f"{name} is not supported: {way}")

    method.__name__ = name
    method.__doc__ = f"Raises `ShardError`: {way}."
    return method


_HINTS = (
    "reset_iter_state",
    "set_is_last_backward",
    "set_requires_gradient_sync",
    "set_requires_all_reduce",
    "set_reshard_after_forward",
    "set_reshard_after_backward",
    "set_force_sum_reduction_for_comms",
    "set_reduce_scatter_unused_params",
    "set_reduce_scatter_max_input_buffers",
    "set_separate_reduce_scatter_group",
    "set_unshard_in_backward",
    "set_allocate_memory_from_process_group_for_comm",
    "set_symm_mem_for_comm",
    "set_post_optim_event",
)
_BY_TORCH = "the program's collectives are those of its backend; use torch's fully_shard for that"
_REFUSED = {
    "set_custom_all_gather": _BY_TORCH,
    "set_custom_reduce_scatter": _BY_TORCH,
    "set_all_reduce_hook": (
        "change gradients after backward, or by a hook of the parameter "
        "(register_post_accumulate_grad_hook)"
    ),
    "set_reduce_scatter_divide_factor": "use set_gradient_divide_factor",
}
for _name in _HINTS:
    setattr(FSDPModule, _name, _hint(_name))
for _name, _way in _REFUSED.items():
    setattr(FSDPModule, _name, _refusal(_name, _way))
