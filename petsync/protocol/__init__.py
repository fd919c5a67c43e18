"""The operations as requests and readers of their responses, in JSON or XML, without I/O."""
