"""The passes, one a file.

A folder holds the passes of one step of compilation, with the modules that only these passes use.
`vocabularies` reads and writes the three dialects. `specialize`, `propagate`, `materialize`,
`optimize`, `partition`, `schedule` and `lower` take a program through the five forms in this order.
`manual` and `stages` hold what several of them need for manual computations and pipeline stages.
`framework` has the base class of passes, their options, and pipelines.
"""

if __name__ != "shard_dialect.passes":
    raise ImportError("import this package as shard_dialect.passes, not through the link to it")
