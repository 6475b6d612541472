import { sql } from 'kysely'
import { prepared } from '../../store/prepared.ts'
import { tellsAs, telling } from '../../store/channels/channels.ts'
import { RuntimeError } from '../../../errors.ts'
import type { User } from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'
import { tokenRevoked, tooManyToday } from '../functions/begin.ts'
import type { Beginning, Begun } from '../journal/begin.ts'
import type { RunNews } from '../events/news.ts'
import type { RunRow, RunStore } from '../journal/store.ts'
import { channelOfSession } from '../journal/write.ts'
import { besideWords, toUserMessage } from '../user-message.ts'
import { titleOf } from '../titles.ts'
import { admissionOf } from './admission.ts'
import type { RunGates } from './gates.ts'
import { timedId } from '../../base/clock.ts'

/** What a beginning at once needs. */
interface BeginningParts {
  readonly store: RunStore
  readonly gates: RunGates
  readonly news: RunNews | undefined
}

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
  readonly #news: RunNews | undefined
  readonly #record: ReturnType<typeof recording>

  constructor({ store, gates, news }: BeginningParts) {
    this.#store = store
    this.#gates = gates
    this.#news = news
    this.#record = recording(store)
  }

  /** Proves the user before anything else, unless the one statement is all that comes before the turn. */
  async proveFirst({
    request,
    whenBusy,
    proof,
  }: Pick<Beginning, 'request' | 'whenBusy' | 'proof'>): Promise<void> {
    if (proof === undefined) return
    const { areClosing, areChoosy } = this.#gates
    const hasFiles = (request.attachments?.length ?? 0) > 0
    if (hasFiles || areClosing || areChoosy || !this.#isPlain({ request, whenBusy }))
      await proof.demand()
  }

  /** Records the turn; undefined where `beginRun` has to do it, and then the user is proved and nothing has changed. */
  async begin(user: User, beginning: Beginning): Promise<Begun | undefined> {
    const begun = await this.#begin(user, beginning)
    if (begun) beginning.proof?.given()
    else await beginning.proof?.demand()
    return begun
  }

  async #begin(user: User, beginning: Beginning): Promise<Begun | undefined> {
    if (!this.#isPlain(beginning)) return undefined
    const { did, sessionId, requestId, request, seat, proof } = beginning
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
    const news = this.#news?.begunBy({ id, session_id: sessionId, did }, request)
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
      cids: proof?.cids ?? [],
      ...telling(channelOfSession(sessionId), `began ${id} ${sessionId}`),
      ...{ newsTo: news?.later.to ?? null, news: news?.later.payload ?? null },
      ...{ newsTold: news?.later.told ?? null, firstNews: news?.first.payload ?? null },
      firstNewsTold: news?.first.told ?? null,
    })
    const [row] = (await recorded.catch(nothing)).rows
    if (!row) return undefined
    const run = rowOf({ id, did, session_id: sessionId, request_id: requestId, owner }, row)
    return {
      outcome: 'begun',
      ...{ run, request, room: row.o_room, superseded: [], closed: [] },
      previous: row.o_previous ?? undefined,
      redactions: row.o_redactions,
      checkpoint: row.o_checkpoint ?? undefined,
      isTold: news !== undefined,
    }
  }

  #isPlain({
    request,
    answers,
    waited,
    whenBusy,
  }: Pick<Beginning, 'request' | 'answers' | 'waited' | 'whenBusy'>): boolean {
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

/** `beginRun` tells the user of a turn that is one too many for the day, and the proof of a token that was revoked. */
function nothing(error: unknown): { readonly rows: Recorded[] } {
  const { code } = fieldsIn(error)
  if (code === tooManyToday || code === tokenRevoked) return { rows: [] }
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
      readonly cids: readonly string[]
      readonly newsTo: string | null
      readonly news: string | null
      readonly newsTold: string | null
      readonly firstNews: string | null
      readonly firstNewsTold: string | null
    }) => ({
      // Every process that holds a socket of this session, or reads the user's events, hears of the run once the run is recorded.
      compile: () =>
        sql<Recorded>`select begun.*, ${tellsAs(p)} as told,
          case when ${p.newsTo}::text is null then null
            when begun.o_turn = 1 then ${tellsAs({ to: p.newsTo, payload: p.firstNews, told: p.firstNewsTold })}
            else ${tellsAs({ to: p.newsTo, payload: p.news, told: p.newsTold })} end as told_too
          from kernel_begin_run_2(
          ${p.session}, ${p.did}, ${p.request}, ${p.run}, ${p.title}, ${p.model}, ${p.beside}, ${p.words},
          ${p.owner}, ${leaseMs}, ${now}, ${p.consumers}, ${p.atOnce}, ${p.perDay}, ${p.address},
          ${p.perDayThere}, ${p.cids}) as begun`.compile(db),
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
