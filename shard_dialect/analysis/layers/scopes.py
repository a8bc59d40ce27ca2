"""The layer that an op belongs to, as a framework's locations name it.

    loc("jit(step)/decoder/layers_0/mlp/dot_general"("model.py":12:3))   decoder, layers_0, mlp

JAX writes the scopes around an op into its location, with slashes, the op's own name last.
"""

from __future__ import annotations

import re

from shard_dialect.analysis.reasons.marks import names_in
from shard_dialect.ir.bindings import ir

Layers = tuple[str, ...]
_JITTED = re.compile(r"jit\(.*\)")


def scope_of(location: ir.Location) -> Layers:
    """The scopes in a location, the outermost first; none where it names none."""
    path = next((name for name in names_in(location) if "/" in name), None)
    return () if path is None else scopes_in(path)


def scopes_in(path: str) -> Layers:
    """The scopes in a path, without those of `jax.jit` and without the op's own name.

    >>> scopes_in("jit(step)/transpose(jvp(decoder))/layers_0/mlp/dot_general")
    ('transpose(jvp(decoder))', 'layers_0', 'mlp')
    >>> scopes_in("jit(f)/jit(main)/add")
    ()
    """
    pieces = [piece for piece in path.split("/")[:-1] if piece]
    return tuple(piece for piece in pieces if not _JITTED.fullmatch(piece))


def beyond(scope: Layers, outer: Layers) -> Layers:
    """What a scope adds to that of an op around it.

    >>> beyond(("decoder", "while", "mlp"), ("decoder", "while"))
    ('mlp',)
    >>> beyond(("other",), ("decoder",))
    ('other',)
    """
    shared = 0
    while shared < min(len(scope), len(outer)) and scope[shared] == outer[shared]:
        shared += 1
    return scope[shared:]
