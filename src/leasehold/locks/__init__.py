"""What `connect()` returns: the verbs, for plain code and for coroutines, and who answers them."""
