import { RuntimeError } from '../../../errors.ts'
import type { RunAdmission, User } from '../../../plugin.ts'
import type { RunGates } from './gates.ts'
import type { Settler } from './settler.ts'
import type { Beginning } from '../journal/begin.ts'
import type { Sessions } from '../journal/sessions.ts'
import type { RunRow, RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'
import { sessionOfRequest } from '../waiting/look.ts'

/** What an admission needs. */
interface AdmissionParts {
  readonly store: RunStore
  readonly sessions: Sessions
  readonly gates: RunGates
  readonly settler: Settler
}

/** What the plugins have to do with the beginning of a turn. */
export class Admission {
  readonly #parts: AdmissionParts

  constructor(parts: AdmissionParts) {
    this.#parts = parts
  }

  /** Whether plugins must be asked about a turn: not about an answer to a run that waits, and not where nobody is asked. */
  isNeeded({ answers, waited, isAdmitted }: Beginning): boolean {
    return !answers && !waited?.cause && !isAdmitted && this.#parts.gates.areClosing
  }

  /**
   * Asks the plugins whether a turn may begin; throws the first refusal. A message that has its run or that waits already
   * was let in before, or is asked about when it begins.
   */
  async ask(user: User, beginning: Beginning): Promise<void> {
    const { gates, store, sessions } = this.#parts
    const { did, sessionId, requestId, waited } = beginning
    if (!gates.areClosing) return
    if (!waited && (await sessionOfRequest(store, did, requestId)) !== undefined) return
    await sessions.demand(did, sessionId)
    await refusable(beginning, () => gates.admit(admissionOf(user, beginning)))
  }

  /** Tells the plugins of the run in the transaction that records it, and notes who has to hear of its end. */
  async recorded(trx: RunDatabase, user: User, beginning: Beginning, run: RunRow): Promise<void> {
    const { gates, settler } = this.#parts
    if (beginning.answers) return
    // A turn that waited in vain has an end and no beginning.
    if (!beginning.waited?.cause)
      await refusable(beginning, () =>
        gates.begin({ ...admissionOf(user, beginning), runId: run.id }, trx),
      )
    await settler.expect(trx, run, beginning.request)
  }
}

/** A plugin refused a turn that waited. Its error may have a code that the kernel throws as well, for another reason. */
export class RefusedByPlugin extends Error {
  readonly refusal: RuntimeError

  constructor(refusal: RuntimeError) {
    super(refusal.message, { cause: refusal })
    this.refusal = refusal
  }
}

/** Asks plugins about a turn, and says of a turn that waited when it was they who refused it. A fault of theirs is no refusal. */
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
function admissionOf(user: User, { sessionId, requestId, request, koa }: Beginning): RunAdmission {
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
