"""One file for each part of the language: lines of that part in, its values of `abl.document` out."""
