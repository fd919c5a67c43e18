"""Images in bulk: found, looked at, and uploaded, each once."""
