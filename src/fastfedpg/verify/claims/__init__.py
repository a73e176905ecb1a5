"""The paper's claims, each as rows of a report."""
