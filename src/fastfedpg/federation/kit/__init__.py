"""What the machines of a federation need, one folder for each."""
