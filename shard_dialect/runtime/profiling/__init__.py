"""What each device of a run did when: `run --profile`."""
