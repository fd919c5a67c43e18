"""Operations as values: a request and the reader of its response, in JSON or XML, without I/O."""
