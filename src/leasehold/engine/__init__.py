"""One actor for each store: an inbox, batches, one transaction a batch, answers. It decides nothing about leases."""
