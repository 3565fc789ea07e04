"""Planted bugs, by the part of the product that they are planted in."""
