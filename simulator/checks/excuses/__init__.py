"""Which faults excuse what went wrong: for whom, where and when. `simulator/faults` says what each kind may cause.

Everything here is a pure function of a `History`. Without faults nothing is excused. No check may be imported.
"""
