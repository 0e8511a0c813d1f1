"""Text analysis: words, stems, languages, dates, and a few features of what a text says."""
