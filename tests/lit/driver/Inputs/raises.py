"""A plugin that cannot be loaded."""

settings: dict[str, int] = {}
print(settings["missing"])
