"""What is minimised: a model, its points, residuals and penalties."""
