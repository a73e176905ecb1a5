"""The paper's claims, checked on a problem: every assumption, lemma and theorem is a row with two sides."""
