/** What the thread is told when it begins. */
export interface WatchdogOrders {
  readonly limitMs: number
  /** Of 32-bit numbers: how often the event loop has turned, whether a debugger is attached, whether to stop. */
  readonly signs: SharedArrayBuffer
  readonly notes: SharedArrayBuffer
  readonly slots: number
  readonly slotBytes: number
  readonly exitCode: number
}

/**
 * The whole program of the thread. It is handed over as its own source, so it uses nothing from around it: a file
 * would have to be translated anew in the thread, and the translator takes ten times the memory of all this.
 * For the same reason `watchdogThread` is one long function: a part of it that stood outside would be missing in the thread.
 */
export function watchdogThread(): void {
  const { workerData } = process.getBuiltinModule('node:worker_threads')
  const { writeSync } = process.getBuiltinModule('node:fs')
  const { limitMs, notes, slots, slotBytes, exitCode, ...orders } = workerData as WatchdogOrders
  const signs = new Int32Array(orders.signs)
  const [turned, debugged, stopped] = [0, 1, 2]
  const sliceMs = Math.min(500, Math.max(5, limitMs / 10))

  /** How much the whole process has computed, in milliseconds. */
  const computed = () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  }
  const write = (entry: object) => {
    const line = `${JSON.stringify({ level: 60, time: Date.now(), ...entry })}\n`
    // A pipe that nobody empties must not keep the process alive.
    for (const out of [1, 2])
      try {
        return void writeSync(out, line)
      } catch {
        continue
      }
  }
  /** What began last, the newest first. */
  const underWay = () => {
    const pad = Buffer.from(notes)
    const found: { age: number; what: string }[] = []
    let newest = -1
    for (let slot = 0; slot < slots; slot++) {
      const start = slot * slotBytes
      const length = pad[start] ?? 0
      if (length === 0) continue
      const order = pad[start + 1] ?? 0
      const what = pad.toString('utf8', start + 2, start + 2 + length)
      found.push({ age: order, what })
      // Numbers wrap at 256, and no two of these are further apart than there are slots.
      if (newest < 0 || ((order - newest) & 0xff) < 0x80) newest = order
    }
    return found
      .map(({ age, what }) => ({ age: (newest - age) & 0xff, what }))
      .sort((a, b) => a.age - b.age)
      .map(({ what }) => what)
  }
  const end = () => {
    const { Session } = process.getBuiltinModule('node:inspector')
    const { setTimeout } = process.getBuiltinModule('node:timers')
    const kill = () => process.kill(process.pid, 'SIGKILL')
    const report = (stack?: unknown) =>
      write({
        msg: `The event loop has not turned for ${limitMs} ms: the process ends, to be started again (EVENT_LOOP_LIMIT_MS)`,
        underWay: underWay(),
        ...(typeof stack === 'string' && { stack: stack.split('\n').slice(2) }),
      })
    // A thread cannot end its process with a code of its own; frozen code of JavaScript can be made to.
    setTimeout(() => {
      if (!reported) report()
      kill()
    }, 1_000)
    let reported = false
    const session = new Session()
    session.connectToMainThread()
    const expression = '(Error.stackTraceLimit = 30, new Error().stack)'
    session.post('Runtime.evaluate', { expression, returnByValue: true }, (_, answer) => {
      reported = true
      report(answer?.result.value)
      session.post('Runtime.evaluate', { expression: `process.reallyExit(${exitCode})` })
    })
  }

  let last = -1
  let frozenMs = 0
  let before = 0
  for (;;) {
    const from = performance.now()
    Atomics.wait(signs, stopped, 0, sliceMs)
    if (Atomics.load(signs, stopped) === 1) return
    const turns = Atomics.load(signs, turned)
    if (turns !== last || Atomics.load(signs, debugged) === 1) {
      last = turns
      frozenMs = 0
      before = computed()
      continue
    }
    // A machine that slept, or that gave this thread no time either, proves nothing.
    frozenMs += Math.min(performance.now() - from, 2 * sliceMs)
    // A loop that computes is frozen; one that computes nothing may only have to wait for the processor.
    const starved = computed() - before < limitMs / 2
    if (frozenMs >= (starved ? 3 : 1) * limitMs) return end()
  }
}
