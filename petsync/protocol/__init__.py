"""Operations as values, a request and a response: JSON and XML, without any I/O."""
