# expect: refused work-outside-the-clock | in the interpreter
# task: three
# with: own_loop

own_loop()
