"""What a memory is made of: values only, no input or output."""
