"""The web pages at `/admin`: what is remembered, for people to look at, to correct and to take away."""
