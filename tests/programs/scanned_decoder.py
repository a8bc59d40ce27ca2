"""Training steps of small decoders whose layers are a scan, as JAX lowers them, drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jax

LENGTH, HIDDEN, HEADS = 8, 8, 2


@dataclass(frozen=True)
class ScannedDecoder:
    """A decoder of `layers`, and its step on a `batch` of sequences."""

    layers: int = 4
    batch: int = 8
    block: int = 0  # of keys that queries attend to at once, in a loop with a running maximum
    recomputed: bool = False  # each layer, in the backward pass
    tied: bool = False  # the embedding is the head, too
    loss_block: int = 0  # of tokens whose loss is computed at once, in a loop
    optimizer: str = "momentum"
    forward: bool = False  # alone
    scaled: bool = False  # all layers by one vector, whose gradients a loop adds up
    words: int = 16
    grid: str = "2x2"
    split: str = ""  # annotations along axis 1: "tensor", "data" or none

    @classmethod
    def draw(cls, draw: Random, grid: str) -> ScannedDecoder:
        """Any of them."""
        return cls(
            layers=draw.choice((2, 3, 4, 5, 6, 7)),
            block=draw.choice((0, 2, 4)),
            recomputed=draw.random() < 0.5,
            tied=draw.random() < 0.4,
            loss_block=draw.choice((0, 0, 2, 4)),
            optimizer=draw.choice(("none", "sgd", "momentum")),
            forward=draw.random() < 0.15,
            scaled=draw.random() < 0.3,
            grid=grid,
            split=draw.choice(("", "tensor", "data")),
        )

    def text(self) -> str:
        """The module, with its grid, and annotations of the first arguments."""
        import jax

        shapes: list[Any] = [jax.ShapeDtypeStruct((self.batch, LENGTH), "int32")] * 2
        weights = {k: jax.ShapeDtypeStruct(v, "float32") for k, v in self.weights().items()}
        state = [weights] * (2 if self.optimizer == "momentum" and not self.forward else 1)
        function = self.predict if self.forward else self.step
        lowered = jax.jit(function, keep_unused=True).lower(*shapes, *state)
        head, rest = lowered.as_text().split("{\n", 1)
        for number, split in self.annotations().items():
            old = f"%arg{number}: "
            begin = rest.index(old)
            end = rest.index(">", begin) + 1
            rest = f"{rest[:end]} {{mesh.sharding = #mesh.shard<@g, {split}>}}{rest[end:]}"
        return f"{head}{{\nshard.grid @g(shape = {self.grid})\n{rest}"

    def weights(self) -> dict[str, tuple[int, ...]]:
        """Their shapes; in the order of the arguments, which is that of the names."""
        made = {
            "a_up": (self.layers, HIDDEN, 16),
            "b_down": (self.layers, 16, HIDDEN),
            "c_mix": (self.layers, HIDDEN, 3 * HIDDEN),
            "d_embedding": (self.words, HIDDEN),
        }
        if not self.tied:
            made["e_head"] = (HIDDEN, self.words)
        if self.scaled:
            made["f_scale"] = (HIDDEN,)
        return made

    def annotations(self) -> dict[int, str]:
        """By argument, along the grid's second axis."""
        if self.split == "data":
            return {0: "[[1], []]", 1: "[[1], []]"}
        return {2: "[[], [], [1]]", 3: "[[], [1], []]"} if self.split == "tensor" else {}

    def step(
        self, tokens: jax.Array, targets: jax.Array, weights: Any, moments: Any = None
    ) -> tuple[Any, ...]:
        """The loss, and what the optimizer makes."""
        import jax

        loss, gradient = jax.value_and_grad(self.loss, argnums=2)(tokens, targets, weights)
        if self.optimizer == "none":
            return loss, gradient
        if moments is None:
            return loss, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradient)
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, gradient)
        return loss, jax.tree.map(lambda w, m: w - 0.1 * m, weights, moments), moments

    def predict(self, tokens: jax.Array, targets: jax.Array, weights: Any) -> jax.Array:
        """What the decoder makes of each token."""
        return self.hidden(tokens, weights) @ self.head(weights) + targets[..., None]

    def head(self, weights: Any) -> jax.Array:
        """The matrix that makes logits."""
        return weights["d_embedding"].T if self.tied else weights["e_head"]

    def loss(self, tokens: jax.Array, targets: jax.Array, weights: Any) -> jax.Array:
        """The sum over all tokens, or over blocks of them in a loop."""
        import jax
        import jax.numpy as jnp

        def of(x: jax.Array, targets: jax.Array) -> jax.Array:
            logits = x @ self.head(weights)
            chosen = jnp.sum(logits * jax.nn.one_hot(targets, self.words), -1)
            return jnp.sum(jax.nn.logsumexp(logits, -1) - chosen) / 64

        x = self.hidden(tokens, weights)
        if not self.loss_block:
            return of(x, targets)
        shape = (self.batch, -1, self.loss_block)
        x = jnp.swapaxes(x.reshape(*shape, HIDDEN), 0, 1)
        targets = jnp.swapaxes(targets.reshape(shape), 0, 1)
        one = jax.checkpoint(of)
        return jax.lax.scan(lambda total, xs: (total + one(*xs), None), 0.0, (x, targets))[0]

    def hidden(self, tokens: jax.Array, weights: Any) -> jax.Array:
        """What all layers make of the tokens."""
        import jax
        import jax.numpy as jnp

        rows = {k: v for k, v in weights.items() if len(v.shape) == 3}

        def layer(x: jax.Array, w: Any) -> jax.Array:
            x = x + self.attention(jnp.tanh(x), w["c_mix"])
            if self.scaled:
                x = x * weights["f_scale"]
            return x + jnp.tanh(x @ w["a_up"]) @ w["b_down"]

        one = jax.checkpoint(layer) if self.recomputed else layer
        x = jax.nn.one_hot(tokens, self.words) @ weights["d_embedding"]
        return jax.lax.scan(lambda x, w: (one(x, w), None), x, rows)[0]

    def attention(self, x: jax.Array, mix: jax.Array) -> jax.Array:
        """Causal attention, of all keys at once or block after block."""
        import jax
        import jax.numpy as jnp

        shape = (*x.shape[:-1], HEADS, HIDDEN // HEADS)
        query, key, value = (each.reshape(shape) for each in jnp.split(x @ mix, 3, -1))
        at = jnp.arange(LENGTH)
        if not self.block:
            scores = jnp.einsum("bqhd,bkhd->bhqk", query, key)
            weights = jax.nn.softmax(jnp.where(at[:, None] >= at, scores, -1e9))
            return jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape)

        def turn(carried: tuple[jax.Array, ...], number: jax.Array) -> tuple[Any, None]:
            most, total, mixed = carried
            keys, values = (
                jax.lax.dynamic_slice_in_dim(each, number * self.block, self.block, 1)
                for each in (key, value)
            )
            scores = jnp.einsum("bqhd,bkhd->bqhk", query, keys)
            seen = at[:, None, None] >= number * self.block + jnp.arange(self.block)
            scores = jnp.where(seen, scores, -1e9)
            new = jnp.maximum(most, jnp.max(scores, -1))
            weights, less = jnp.exp(scores - new[..., None]), jnp.exp(most - new)
            mixed = mixed * less[..., None] + jnp.einsum("bqhk,bkhd->bqhd", weights, values)
            return (new, total * less + jnp.sum(weights, -1), mixed), None

        zeros = jnp.zeros(shape)
        start = jnp.full(shape[:-1], -1e9), zeros[..., 0], zeros
        number = jnp.arange(LENGTH // self.block)
        (_, total, mixed), _ = jax.lax.scan(turn, start, number)
        return (mixed / total[..., None]).reshape(x.shape)
