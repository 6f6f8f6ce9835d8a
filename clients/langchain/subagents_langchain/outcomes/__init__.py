"""What tool messages carry: the outcomes of calls, and what is missing among them."""
