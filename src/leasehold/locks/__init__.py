"""Return values of `connect()`: the verbs, for plain code and for coroutines, and the engines that answer them."""
