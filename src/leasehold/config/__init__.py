"""Which store, on what terms, and who asks: settings, files, paths, identity, credentials. It opens nothing."""
