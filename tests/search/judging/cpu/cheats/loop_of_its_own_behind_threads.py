# expect: refused work-outside-the-clock | in the interpreter
# task: three
# with: own_loop
import threading

own_loop()
threading.stack_size(65536)
GATE = threading.Event()
for _ in range(70):
    threading.Thread(target=GATE.wait, daemon=True).start()
