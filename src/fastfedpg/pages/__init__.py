"""Pages for people: one HTML file of a run, a comparison, a study or a report, which opens without a network."""
