import { sql } from 'kysely'
import { prepared } from '../../store/prepared.ts'
import { tellsAs, telling } from '../../store/channels/channels.ts'
import { RuntimeError } from '../../../errors.ts'
import type { User } from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'
import { tooManyToday } from '../functions/begin.ts'
import type { Beginning, Begun } from '../journal/begin.ts'
import type { RunRow, RunStore } from '../journal/store.ts'
import { channelOfSession } from '../journal/write.ts'
import { besideWords, toUserMessage } from '../user-message.ts'
import { titleOf } from '../titles.ts'
import { admissionOf } from './admission.ts'
import type { RunGates } from './gates.ts'
import { timedId } from '../../base/clock.ts'

/** What the function of the database says of a turn that it has recorded. */
interface Recorded {
  readonly o_turn: number
  readonly o_room: string | null
  readonly o_redactions: number
  readonly o_previous: string | null
  readonly o_checkpoint: string | null
  readonly o_lease_until: number
  readonly o_now: number
}

/**
 * Records turns on PostgreSQL in one statement, where a turn begins as nearly all do and no plugin has anything to do in the
 * transaction of its beginning. All other turns go through `beginRun`, which asks the server eight times.
 */
export class BeginningAtOnce {
  readonly #store: RunStore
  readonly #gates: RunGates
  readonly #record: ReturnType<typeof recording>

  constructor(store: RunStore, gates: RunGates) {
    this.#store = store
    this.#gates = gates
    this.#record = recording(store)
  }

  /** Records the turn; undefined where `beginRun` has to do it, and then nothing has changed. */
  async begin(user: User, beginning: Beginning): Promise<Begun | undefined> {
    if (!this.#isPlain(beginning)) return undefined
    const { did, sessionId, requestId, request, seat } = beginning
    try {
      // Whoever gets no seat may have sent a message that has its run: `beginRun` finds out.
      seat?.take()
    } catch (error) {
      if (error instanceof RuntimeError) return undefined
      throw error
    }
    const id = timedId()
    const told = { ...admissionOf(user, beginning), runId: id }
    const consumers = await this.#gates.wanting(told, request, this.#store.db)
    const limits = seat?.limits
    const { owner } = this.#store
    const recorded = this.#record({
      ...{ session: sessionId, did, request: requestId, run: id, owner },
      title: titleOf(request.message),
      model: request.model ?? null,
      beside: besideWords(request) ?? null,
      words: JSON.stringify(toUserMessage(id, request)),
      consumers,
      atOnce: limits?.atOnce ?? null,
      perDay: limits?.perDay ?? null,
      address: seat?.asking.address ?? null,
      perDayThere: limits ? limits.perDay * limits.addressFactor : null,
      ...telling(channelOfSession(sessionId), `began ${id} ${sessionId}`),
    })
    const [row] = (await recorded.catch(nothingOfTooMany)).rows
    if (!row) return undefined
    const run = rowOf({ id, did, session_id: sessionId, request_id: requestId, owner }, row)
    return {
      outcome: 'begun',
      ...{ run, request, room: row.o_room, superseded: [], closed: [] },
      previous: row.o_previous ?? undefined,
      redactions: row.o_redactions,
      checkpoint: row.o_checkpoint ?? undefined,
    }
  }

  #isPlain({ request, answers, waited, whenBusy }: Beginning): boolean {
    return (
      this.#store.dialect === 'postgres' &&
      !answers &&
      !waited &&
      !whenBusy &&
      !request.parts &&
      request.from === undefined &&
      !this.#gates.actAtBeginnings
    )
  }
}

/** `beginRun` tells the user of a turn that is one too many for the day. */
function nothingOfTooMany(error: unknown): { readonly rows: Recorded[] } {
  if (fieldsIn(error).code === tooManyToday) return { rows: [] }
  throw error
}

const recording = ({ db, now, leaseMs }: RunStore) =>
  prepared(
    db,
    (p: {
      readonly session: string
      readonly did: string
      readonly request: string
      readonly run: string
      readonly title: string | null
      readonly model: string | null
      readonly beside: string | null
      readonly words: string
      readonly owner: string
      readonly consumers: readonly string[]
      readonly atOnce: number | null
      readonly perDay: number | null
      readonly address: string | null
      readonly perDayThere: number | null
      readonly to: string
      readonly payload: string
      readonly told: string
    }) => ({
      // Every process that holds a socket of this session hears of the run once the run is recorded.
      compile: () =>
        sql<Recorded>`select begun.*, ${tellsAs(p)} as told from kernel_begin_run_1(
          ${p.session}, ${p.did}, ${p.request}, ${p.run}, ${p.title}, ${p.model}, ${p.beside}, ${p.words},
          ${p.owner}, ${leaseMs}, ${now}, ${p.consumers}, ${p.atOnce}, ${p.perDay}, ${p.address},
          ${p.perDayThere}) as begun`.compile(db),
    }),
  )

/** The row of a run as the function has inserted it. */
function rowOf(
  named: Pick<RunRow, 'id' | 'did' | 'session_id' | 'request_id' | 'owner'>,
  { o_turn: turn, o_lease_until: lease_until, o_now: created_at }: Recorded,
): RunRow {
  return {
    ...named,
    ...{ turn, root_id: named.id, root_turn: turn, continues: null, decision: null },
    ...{ status: 'running', stop: null, cause: null, epoch: 1, lease_until, attempts: 0 },
    ...{ deaths: 0, died_with: null, on_trial: 0, version: 0, last_seq: 0, kept_seq: 0 },
    ...{ kept_length: 0, steps: 1, checkpoint: null, created_at, ended_at: null },
    ...{ purged: 0, namesake: 0 },
  }
}
