"""Half an hour of mixed load and injected faults on one service: `make soak`."""
