"""The memory of a device where XLA compiles the program."""
