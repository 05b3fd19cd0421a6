"""How wrong an answer is: bars for its error, from the residuals and what is known of the equations."""
