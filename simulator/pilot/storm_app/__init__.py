"""The app of the storm; a folder with a host.json of its own is made of it."""
