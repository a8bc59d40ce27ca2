"""How a tensor lies on the devices, drawn."""
