"""Where attempts are carried out: here, or (behind the same seam) on other machines."""
