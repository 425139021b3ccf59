"""One file a method: settings, fit, predict, save."""
