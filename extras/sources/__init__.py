"""Data of other kinds than a series: reviews, texts, texts with labels."""
