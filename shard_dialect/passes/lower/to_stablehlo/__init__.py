"""The local form as plain StableHLO, for compilers of others: one module for each kind of op."""
