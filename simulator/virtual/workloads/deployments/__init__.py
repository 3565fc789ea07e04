"""What is deployed: apps with settings and names of all sorts, and hosts that are none of ours beside them."""
