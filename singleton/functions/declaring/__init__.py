"""What arguments of ``@singleton`` are checked for without anything of a function: names, words, keywords."""
