"""How bytes travel between a server and its agents."""
