"""What the trained models are for: real data as their inputs, and their outputs as answers. One module a task."""
