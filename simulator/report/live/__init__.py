"""What a terminal shows: the live view, a timeline in characters, and the last screen.

Each is a list of lines that fit the terminal. Nothing here knows when it is drawn.
"""
