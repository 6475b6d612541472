import { RuntimeError } from '../../../errors.ts'
import type { RunAdmission, User } from '../../../plugin.ts'
import type { RunGates } from './gates.ts'
import { GateQueries } from './queries.ts'
import type { Settler } from './settler.ts'
import type { Beginning } from '../journal/begin.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { RunRow, RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'

/** What an admission needs. */
interface AdmissionParts {
  readonly store: RunStore
  readonly sessions: Sessions
  readonly gates: RunGates
  readonly settler: Settler
}

/** The plugins' say in the beginning of a turn: they are asked whether it may begin, and told when it has begun. */
export class Admission {
  readonly #parts: AdmissionParts
  readonly #queries: GateQueries

  constructor(parts: AdmissionParts) {
    this.#parts = parts
    this.#queries = new GateQueries(parts.store)
  }

  /** Whether plugins must be asked about a turn. They are not asked about an answer to a run that waits. */
  isNeeded({ answers, waited, isAdmitted }: Beginning): boolean {
    return !answers && !waited?.cause && !isAdmitted && this.#parts.gates.areClosing
  }

  /** Whether a plugin can say outside of the transaction why it refuses a turn there. */
  get canExplain(): boolean {
    return this.#parts.gates.haveAdmit
  }

  /**
   * Asks the plugins whether a turn may begin; throws the first refusal. A message that came before and has a run or waits
   * is not asked about again: the plugins let it in then, or are asked when it begins.
   */
  async ask(user: User, beginning: Beginning): Promise<void> {
    const { gates, sessions } = this.#parts
    const { did, sessionId, requestId, waited } = beginning
    if (!gates.areClosing) return
    const look = await this.#queries.look({ session: sessionId, did, request: requestId })
    if (!waited && look.isKnown) return
    if (!look.isOwn) throw sessions.unknown(sessionId)
    await refusable(beginning, () => gates.admit(admissionOf(user, beginning)))
  }

  /** Tells the plugins of the run in the transaction that records it, and notes who has to hear of its end. */
  async recorded(trx: RunDatabase, user: User, beginning: Beginning, run: RunRow): Promise<void> {
    const { gates, settler } = this.#parts
    if (beginning.answers) return
    // A turn that ends without having begun has waited in vain: the plugins are told of its end alone.
    if (beginning.waited?.cause) return settler.expect(trx, run, beginning.request)
    const told = { ...admissionOf(user, beginning), runId: run.id }
    await beginsWith(() => gates.begin(told, trx))
    const wanting = await gates.wanting(told, beginning.request, trx)
    await settler.expect(trx, run, beginning.request, wanting)
  }
}

/** A plugin refused a turn in the transaction that was to record the turn. Nothing of the turn is recorded. */
export class RefusedAtBeginning extends Error {
  readonly refusal: RuntimeError

  constructor(refusal: RuntimeError) {
    super(refusal.message, { cause: refusal })
    this.refusal = refusal
  }

  /** The refusal as the caller hears of it. */
  toldTo({ waited }: Beginning): Error {
    return waited ? new RefusedByPlugin(this.refusal) : this.refusal
  }
}

/** A plugin refused a turn that waited. The class tells this refusal from an error of the kernel with the same code. */
export class RefusedByPlugin extends Error {
  readonly refusal: RuntimeError

  constructor(refusal: RuntimeError) {
    super(refusal.message, { cause: refusal })
    this.refusal = refusal
  }
}

/** Tells plugins of a beginning, and marks their refusal. A plugin that fails has not refused. */
async function beginsWith(tell: () => Promise<void>): Promise<void> {
  try {
    await tell()
  } catch (error) {
    if (error instanceof RuntimeError && error.status < 500) throw new RefusedAtBeginning(error)
    throw error
  }
}

/** Asks plugins about a turn, and marks their refusal of a turn that waited. A plugin that fails has not refused. */
async function refusable({ waited }: Beginning, ask: () => Promise<void>): Promise<void> {
  try {
    await ask()
  } catch (error) {
    if (waited && error instanceof RuntimeError && error.status < 500)
      throw new RefusedByPlugin(error)
    throw error
  }
}

/** What the plugins are told of a turn that is to begin. */
export function admissionOf(
  user: User,
  { sessionId, requestId, request, koa }: Beginning,
): RunAdmission {
  const { model, from = 'user', origin, metadata } = request
  return {
    user,
    sessionId,
    requestId,
    ...(model !== undefined && { model }),
    source: request.source ?? (origin === undefined ? 'http' : 'plugin'),
    from,
    ...(origin !== undefined && { origin }),
    ...(metadata && { metadata }),
    ...(koa && { koa }),
  }
}
