"""What the three command lines share: flags, help, errors, and verification options."""
