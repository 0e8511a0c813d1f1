"""What is kept in memory to answer a recall: derived from entries, thrown away and made again at will."""
