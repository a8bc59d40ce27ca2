"""Device models: the rates of devices and of their network."""
