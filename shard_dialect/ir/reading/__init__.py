"""From text to a verified module: spelling, parsing, and located errors."""
