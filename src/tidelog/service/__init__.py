"""What runs by itself over the logs of a process: loading at start, tasks, moves, requests."""
