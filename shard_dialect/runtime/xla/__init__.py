"""The local form run by XLA, through JAX, on the devices that jax has."""
