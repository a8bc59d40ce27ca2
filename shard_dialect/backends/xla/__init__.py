"""The local form compiled and run by XLA, through JAX, on the devices that jax has."""
