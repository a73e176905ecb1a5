"""Algorithms made of algorithms."""
