"""What every room uses: errors, holds, events, time spans, and the words of messages.

Nothing here may import another room.
"""
