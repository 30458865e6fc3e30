"""What holds when processes die, stop, or lose their disk or database, shown with real ones."""
