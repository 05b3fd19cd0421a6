"""What an answer is worth: errors, the certificate of its conditions; figures, reports and files of it."""
