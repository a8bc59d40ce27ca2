"""The costs of a program in the local form for each device: arithmetic, memory."""
