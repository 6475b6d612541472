import type { Context } from 'koa'
import type { RuntimeError } from '../../errors.ts'
import type { AuditFacts } from '../../plugin.ts'
import { Facts, outcomeOf } from './line.ts'
import type { AuditTrail } from './trail.ts'

/** A route whose calls leave audit lines. */
export interface TracedRoute {
  readonly trail: AuditTrail
  /** The key of the route: `PUT /notes/:id`. */
  readonly key: string
  /** The names of the route's path parameters, in the order of the path. Their values are ids. */
  readonly params: readonly string[]
  /** Whether every call of a signed-in caller leaves a line. If not, a call leaves one when its handler adds facts. */
  readonly isWrite: boolean
}

/** The parts of an answer that say what was written. */
interface Told {
  readonly status: number
  readonly location: string | undefined
  /** The value that becomes the JSON of the answer. */
  readonly body: unknown
}

/** One call of one route, on its way to its audit line. */
export class Trace {
  readonly #route: TracedRoute
  readonly #koa: Context
  readonly #caller: string
  readonly #captures: readonly string[]
  #facts: Facts | undefined
  #isOver = false

  constructor(route: TracedRoute, koa: Context, caller: string, captures: readonly string[]) {
    this.#route = route
    this.#koa = koa
    this.#caller = caller
    this.#captures = captures
  }

  /** Adds facts to the line of this call. */
  add(facts: AuditFacts): void {
    // Facts of what a handler does after its answer, or while the answer streams, get a line of their own.
    if (this.#isOver) return void this.#tell({ outcome: 'accepted' }, facts)
    this.#facts ??= new Facts()
    this.#facts.add(facts)
  }

  /** Ends the trace. True when the call leaves a line, which `answered`, `replayed` or `failed` then writes; false from then on. */
  endsHere(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    return this.#route.isWrite || this.#facts !== undefined
  }

  /** Writes the line of a call that was answered. The answer has to wait for the promise, if there is one. */
  answered({ status, location, body }: Told): Promise<void> | undefined {
    const run = this.#koa.res.getHeader('X-Run-Id')
    return this.#tell(
      { outcome: outcomeOf(status), status, ...(typeof run === 'string' && { runId: run }) },
      location === undefined ? idsOf(body) : { location },
    )
  }

  /** Writes the line of a repeated call that got the stored answer of the first: the call itself wrote nothing. */
  replayed(status: number): Promise<void> | undefined {
    return this.#tell({ outcome: outcomeOf(status), status }, { replayed: 'true' })
  }

  /** Writes the line of a call that failed. */
  failed({ status, code }: RuntimeError): void {
    const { res, socket } = this.#koa
    // When the caller has closed the connection, the handler may have stopped in the middle of the write.
    const outcome = res.destroyed || socket.destroyed ? 'unknown' : outcomeOf(status)
    void this.#tell({ outcome, status, code }, {})
  }

  #tell(
    ended: Pick<Parameters<AuditTrail['write']>[0], 'outcome' | 'status' | 'code' | 'runId'>,
    derived: AuditFacts,
  ): Promise<void> | undefined {
    const { trail, key, params } = this.#route
    const facts = new Facts()
    for (const [nth, name] of params.entries()) facts.add({ [name]: plain(this.#captures[nth]) })
    facts.add(derived)
    const added = this.#facts
    this.#facts = undefined
    if (added) facts.add({ ...added.what, who: added.who })
    return trail.write({
      who: facts.who ?? this.#caller,
      route: key,
      what: facts.what,
      ...ended,
      requestId: String(this.#koa.res.getHeader('X-Request-Id') ?? this.#koa.state.requestId),
    })
  }
}

function plain(capture = ''): string {
  try {
    return decodeURIComponent(capture)
  } catch {
    return capture // not URL-encoded text, for which the router refuses the call
  }
}

/** The fields `id` and `did` of an answer without a `Location` header. */
function idsOf(body: unknown): AuditFacts {
  if (typeof body !== 'object' || body === null) return {}
  const ids: Record<string, string> = {}
  for (const name of ['id', 'did'] as const) {
    const value: unknown = Reflect.get(body, name)
    if (typeof value === 'string') ids[name] = value
  }
  return ids
}
