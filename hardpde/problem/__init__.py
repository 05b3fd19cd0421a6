"""What is solved: fields, equations, conditions; the statement of a problem, checked."""
