"""Who turns the crank of an engine: the caller, a thread, or an event loop."""
