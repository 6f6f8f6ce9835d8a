"""The sixty faults that this project is held to, and the page of evidence that is made of them."""
