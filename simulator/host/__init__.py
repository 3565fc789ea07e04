"""One fake Functions host: a process that runs a user's ``function_app.py`` the way the real host and worker do."""
