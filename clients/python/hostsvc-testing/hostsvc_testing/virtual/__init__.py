"""Virtual time: the loop, the clocks, and what happened when."""
