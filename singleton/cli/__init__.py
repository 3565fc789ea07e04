"""``singleton-locks``: the locks of an app, for whoever is on call. No Functions app imports this room.

Exit codes: 0 done; 1 the answer is no (nobody has it, a check failed, it was not acquired); 2 an option or a name is
wrong; 3 storage or installation failed; 128 + n when signal n ended the command.
"""
