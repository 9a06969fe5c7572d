"""Tables of users to arrays and back."""
