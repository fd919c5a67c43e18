"""Operations as requests and responses as values: JSON and XML, without any I/O."""
