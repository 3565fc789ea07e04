"""For apps that share locks with .NET: the layouts of WebJobs and Dequeueable, and texts as .NET prints them.

Imported only when a declaration asks for such a layout or a format. Names and texts are pure: no store, no lock.
"""
