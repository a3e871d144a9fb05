"""How well retrieval answers what engineers ask: questions with graded answers, and the measures."""
