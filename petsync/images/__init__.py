"""Find, inspect and upload images in bulk, each once."""
