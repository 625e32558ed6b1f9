"""What a user asks for, checked before anything is traced."""
