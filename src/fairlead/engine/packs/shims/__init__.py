"""What node packs import from the engine they were written for, as thin modules over ours."""
