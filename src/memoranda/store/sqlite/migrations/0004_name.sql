-- The mark of a file, after the project was renamed: the text `MMRD`.

PRAGMA application_id = 1296912964;
