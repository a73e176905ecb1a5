"""What the paper says about other methods, as rows."""
