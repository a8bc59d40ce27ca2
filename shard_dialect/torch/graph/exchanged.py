"""Attributes of torch, and of modules, that are others as long as something is traced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def exchanged(owner: Any, **values: Any) -> Iterator[None]:
    """Within a `with` block, an object, a class or a module has these attributes.

    After it, what was inherited is so again.
    """
    own = {name: vars(owner)[name] for name in values if name in vars(owner)}
    for name, each in values.items():
        setattr(owner, name, each)
    try:
        yield
    finally:
        for name in values:
            if name in own:
                setattr(owner, name, own[name])
            else:
                delattr(owner, name)
