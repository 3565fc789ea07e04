"""What is deployed: apps with all sorts of settings and names, and hosts of other libraries."""
