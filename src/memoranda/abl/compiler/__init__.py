"""A checked document in, a plan that the runtime follows out."""
