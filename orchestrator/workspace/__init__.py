"""Git and the machine: repositories, the hub, private checkouts, processes, the sandbox."""
