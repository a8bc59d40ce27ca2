"""The passes, and the orders in which they run.

`pipelines` names every step of `--spmd`, `--lower` and the other pipelines. A folder holds the
passes of one part of the way, with the modules that only these passes use. `vocabularies` reads and
writes the three dialects. `specialize`, `propagate`, `materialize`, `optimize`, `partition`,
`schedule` and `lower` take a program through the five forms in this order. `manual` and `stages`
are about manual computations and pipeline stages. `framework` has the base class of passes, their
options, the table of their names, and what passes know of a module.
"""

if __name__ != "shard_dialect.passes":
    raise ImportError("import this package as shard_dialect.passes, not through the link to it")
