"""Where memory is kept: one contract, several stores."""
