"""What a call costs, beside the usual ways, in one run on one machine."""
