/** What a signal does to an app. */
export interface Minded {
  close(): Promise<void>
  /** Reads the keys of a changed environment, on SIGHUP. Never rejects. */
  reload(): Promise<void>
}

/** How an app is minded. */
export interface Minding {
  /** The signals that the process handles itself: its own handlers have to call `close`. */
  readonly elsewhere: readonly NodeJS.Signals[]
  /** Leaves signals alone again. */
  leave(): void
}

/** The signals that ask a process to end. */
const endings = ['SIGTERM', 'SIGINT'] as const

/** The apps of this process that a signal closes. */
const minded = new Set<Minded>()
let hearing: { readonly elsewhere: readonly NodeJS.Signals[]; stop(): void } | undefined
let isEnding = false

/**
 * Lets SIGTERM and SIGINT close the app, after which the process ends with 0; a second signal ends the process at once
 * with 1. SIGHUP reloads the keys. A signal that the process handles itself is left to its handlers.
 */
export function mindSignals(app: Minded): Minding {
  minded.add(app)
  hearing ??= hear()
  return {
    elsewhere: hearing.elsewhere,
    leave() {
      minded.delete(app)
      // Until the process has ended, a second signal has to find its handler.
      if (minded.size > 0 || isEnding) return
      hearing?.stop()
      hearing = undefined
    },
  }
}

function hear() {
  const handlers: [NodeJS.Signals, () => void][] = [
    ['SIGTERM', () => void end()],
    ['SIGINT', () => void end()],
    ['SIGHUP', () => void reloadAll()],
  ]
  const own = handlers.filter(([signal]) => process.listenerCount(signal) === 0)
  for (const [signal, handler] of own) process.on(signal, handler)
  const watch = own.length > 0 ? watchShell() : undefined
  return {
    elsewhere: endings.filter((signal) => !own.some(([ours]) => ours === signal)),
    stop() {
      clearInterval(watch)
      for (const [signal, handler] of own) process.off(signal, handler)
    },
  }
}

/** How often a process that npm started looks whether its shell is still there. */
const lookMs = 500

/**
 * npm hands a signal to the shell in which it runs a script. A shell that does not become the script ends without a word to
 * this process, which would go on with nobody who could stop it; so the end of that shell counts as the signal.
 */
function watchShell(): NodeJS.Timeout | undefined {
  if (process.env.npm_lifecycle_event === undefined || process.platform === 'win32') return
  const shell = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === shell) return
    clearInterval(watch)
    void end()
  }, lookMs).unref()
  return watch
}

async function end(): Promise<void> {
  if (isEnding) process.exit(1)
  isEnding = true
  const closed = await Promise.allSettled([...minded].map((app) => app.close()))
  process.exit(closed.every(({ status }) => status === 'fulfilled') ? 0 : 1)
}

async function reloadAll(): Promise<void> {
  for (const app of minded) await app.reload()
}
