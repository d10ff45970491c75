"""Shows a tier, alone or below a log directory, as a log directory, for all code that reads one."""
