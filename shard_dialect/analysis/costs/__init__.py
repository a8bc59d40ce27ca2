"""What a program in the local form costs each device: arithmetic, memory."""
