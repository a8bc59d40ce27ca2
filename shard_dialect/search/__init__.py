"""Search for the shardings of tensors that are not annotated: `opt --auto` and `sd.auto`."""
