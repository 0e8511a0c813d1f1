"""The admin pages at `/admin`: browse, correct and delete what is remembered."""
