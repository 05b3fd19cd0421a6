"""The paper's figures, drawn again."""
