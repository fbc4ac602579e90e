"""Planted faults: a proof that cannot fail proves nothing, so each fault must make one of the other parts fail.

tests/mutants/NAME.patch is one fault, a patch over src/ with a header (`patches.py`) that says what the fault is, which
law it breaks and which part must catch it. Each patch is applied to a copy of src/, and that part is run over the copy
until its first violation. The same command is run once over a copy without a fault: there it must find nothing.

Of a mutant is demanded: the patch still applies to the letter; the copy is what runs; the part ends with a violation
that is no mistake of the patch's own (a name that is not there, SQL that does not parse); and it does so in its time.
"""
