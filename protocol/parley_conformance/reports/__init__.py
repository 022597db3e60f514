"""What a run of the kit leaves behind: JSON, JUnit, a page, a badge, a matrix of several."""
