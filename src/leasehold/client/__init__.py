"""`Locks` over HTTP, for plain code (``plain``) and for coroutines (``aio``): keep-alive, safe retries, fail-over."""
