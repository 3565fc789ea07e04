"""What goes wrong while real hosts run: kinds of faults, plans of them, and the nemesis that strikes where it hurts.

It knows hosts by their names, locks by their blobs, and requests. Processes, journals of hosts and verdicts may not
enter: `simulator/real` gives it a field to strike.
"""
