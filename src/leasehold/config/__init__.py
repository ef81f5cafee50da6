"""Settings, paths, URLs, identity and credentials of the caller. Nothing here opens a store."""
