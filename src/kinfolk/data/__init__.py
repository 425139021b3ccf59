"""What is given: instances, their labels and the relations between them."""
