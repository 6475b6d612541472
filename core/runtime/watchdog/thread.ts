/** What the thread needs to know when it starts. */
export interface WatchdogOrders {
  /** How long the event loop may stand still. */
  readonly limitMs: number
  /** Three 32-bit numbers: how often the event loop has turned, whether a debugger is attached, whether to stop. */
  readonly signs: SharedArrayBuffer
  /** The names of what began last, as `underWay` writes them. */
  readonly notes: SharedArrayBuffer
  /** How many names `notes` holds. */
  readonly slots: number
  /** How many bytes each name has in `notes`. */
  readonly slotBytes: number
  /** The code with which the process ends. */
  readonly exitCode: number
}

/**
 * The whole program of the thread. The thread gets the source text of this function, so the function uses nothing that stands
 * outside it, and it is one long function. A file would have to be translated from TypeScript in the thread, and the
 * translator takes ten times the memory of the rest.
 */
export function watchdogThread(): void {
  const { workerData } = process.getBuiltinModule('node:worker_threads')
  const { writeSync } = process.getBuiltinModule('node:fs')
  const { limitMs, notes, slots, slotBytes, exitCode, ...orders } = workerData as WatchdogOrders
  const signs = new Int32Array(orders.signs)
  const [turned, debugged, stopped] = [0, 1, 2]
  const sliceMs = Math.min(500, Math.max(5, limitMs / 10))

  /** The processor time that the whole process has used, in milliseconds. */
  const computed = () => {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  }
  const write = (entry: object) => {
    const line = `${JSON.stringify({ level: 60, time: Date.now(), ...entry })}\n`
    // A full pipe makes the write fail. Then the other output gets the line, and the process ends in any case.
    for (const out of [1, 2])
      try {
        return void writeSync(out, line)
      } catch {
        continue
      }
  }
  /** The names of what began last, the newest first. */
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
      // The numbers wrap at 256. Two of them differ by less than the count of slots, so the comparison holds across the wrap.
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
    // A thread cannot end its process with an exit code. The inspector can make the frozen main thread do it. If that takes
    // longer than a second, the thread kills the process.
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
    // A long slice means that the machine slept or was too busy for this thread as well, so it counts at most double.
    frozenMs += Math.min(performance.now() - from, 2 * sliceMs)
    // A loop that uses the processor is frozen. A loop that uses none may only wait for the processor, so it gets more time.
    const starved = computed() - before < limitMs / 2
    if (frozenMs >= (starved ? 3 : 1) * limitMs) return end()
  }
}
