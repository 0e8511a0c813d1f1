"""What words a text has: text in, stems, counts and a few signs of what it says out."""
