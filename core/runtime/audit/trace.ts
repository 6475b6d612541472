import type { Context } from 'koa'
import type { RuntimeError } from '../../errors.ts'
import type { AuditFacts } from '../../plugin.ts'
import { Facts, outcomeOf } from './line.ts'
import type { AuditTrail } from './trail.ts'

/** A route whose calls leave lines behind. */
export interface TracedRoute {
  readonly trail: AuditTrail
  /** `PUT /notes/:id` */
  readonly key: string
  /** The names of its path parameters: ids, as they stand in the path. */
  readonly params: readonly string[]
  /** Whether every call of a signed-in caller has a line; else those whose handlers add facts. */
  readonly isWrite: boolean
}

/** What the answer says about what was written, as far as the kernel can see. */
interface Told {
  readonly status: number
  readonly location: string | undefined
  /** The JSON of the answer before it is text. */
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

  add(facts: AuditFacts): void {
    // What a handler does behind its answer, or while that streams, has a line of its own.
    if (this.#isOver) return void this.#tell({ outcome: 'accepted' }, facts)
    this.#facts ??= new Facts()
    this.#facts.add(facts)
  }

  /** Ends the trace, once: whether the end is worth a line, which `answered`, `replayed` or `failed` then writes. */
  endsHere(): boolean {
    if (this.#isOver) return false
    this.#isOver = true
    return this.#route.isWrite || this.#facts !== undefined
  }

  /** Tells how the call was answered. The answer leaves when the promise, if there is one, has resolved. */
  answered({ status, location, body }: Told): Promise<void> | undefined {
    const run = this.#koa.res.getHeader('X-Run-Id')
    return this.#tell(
      { outcome: outcomeOf(status), status, ...(typeof run === 'string' && { runId: run }) },
      location === undefined ? idsOf(body) : { location },
    )
  }

  /** The same for a stored answer that a repeat gets: nothing is written again. */
  replayed(status: number): Promise<void> | undefined {
    return this.#tell({ outcome: outcomeOf(status), status }, { replayed: 'true' })
  }

  /** Tells that the call came to nothing. */
  failed({ status, code }: RuntimeError): void {
    const { res, socket } = this.#koa
    // Whoever left heard no answer, and the handler may have been in the middle.
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
    return capture // malformed, and refused for that
  }
}

/** The ids that an answer without a `Location` names at its top. */
function idsOf(body: unknown): AuditFacts {
  if (typeof body !== 'object' || body === null) return {}
  const ids: Record<string, string> = {}
  for (const name of ['id', 'did'] as const) {
    const value: unknown = Reflect.get(body, name)
    if (typeof value === 'string') ids[name] = value
  }
  return ids
}
