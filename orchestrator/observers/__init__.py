"""What people and programs see of a run: plain functions of (event, state), and texts of a state.

None of them may harm the run: they only read, and the engine drops one that raises.
"""
