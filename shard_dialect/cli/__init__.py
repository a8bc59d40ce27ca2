"""What the three command lines share: flags, help, error output, and verification options."""
