"""Where samples come from: data sets that are read, generators that draw, and the order in which samples are shown."""
