"""Why a collective is there, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from shard_dialect.passes.propagate.origins import Origin


@dataclass(frozen=True)
class Reason:
    """One step of an explanation, with its place, `file:line:col`, in the user's file."""

    text: str
    location: str | None
    annotation: bool = False
    """Whether it is an annotation, at which a chain ends."""

    def __str__(self) -> str:
        return f"{self.location}: {self.text}" if self.location else self.text


@dataclass(frozen=True)
class Why:
    """Why a collective is there.

    The last of `steps` is at an annotation, if one is behind it; `readers` are the places of the
    ops that share the result, and `origins` the annotations that the steps lead to.
    """

    steps: tuple[Reason, ...]
    readers: tuple[Reason, ...] = ()
    origins: tuple[Origin, ...] = ()
    others: tuple[Origin, ...] = ()
    """Annotations that split what meets there likewise, to which no step leads."""
    whole: tuple[Origin, ...] = ()
    """The annotations that do not split where the collective gathers or reduces."""

    @classmethod
    def of_bundle(cls, whys: Sequence[Why]) -> Why:
        """Why a collective is there that does what several would do: all of their reasons."""
        if len(whys) == 1:
            return whys[0]
        all_of = cls(
            *(
                tuple(dict.fromkeys(each for why in whys for each in getattr(why, field.name)))
                for field in fields(cls)
            )
        )
        # Steps that several have in common are told once: then the annotations come last.
        return replace(all_of, steps=tuple(sorted(all_of.steps, key=lambda each: each.annotation)))
