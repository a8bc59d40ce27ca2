"""From text to a verified module: spelling, parsing, and errors that say where."""
