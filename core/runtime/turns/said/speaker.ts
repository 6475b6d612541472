import type { QueryExecutorProvider } from 'kysely'
import { RuntimeError } from '../../../errors.ts'
import type {
  EnsuredSession,
  FoundMessage,
  NewWords,
  PluginSessions,
  SaidWords,
  WantedMessage,
  WantedSession,
} from '../../../plugin.ts'
import { fieldsIn } from '../../base/fields.ts'
import type { Notices } from '../../notices/notices.ts'
import type { Watchers } from '../events/watchers.ts'
import { toBatches } from '../journal/event-lines.ts'
import type { Sessions } from '../sessions/sessions.ts'
import { titleOf } from '../titles.ts'
import { findMessage } from '../sessions/find-message.ts'
import { positionOf } from '../journal/steps.ts'
import { channelOfSession } from '../journal/write.ts'
import { telling } from '../../store/channels/channels.ts'
import type { RunStore } from '../journal/store.ts'
import type { RunDatabase } from '../journal/tables.ts'
import type { RenderedComponent } from '../run.ts'
import type { PluginMessage } from '../user-message.ts'
import { eventsOf } from './events.ts'
import { saidStatements } from './statements.ts'
import { readDid, refuseUnknown, readNewWords, type Words } from './words.ts'
import { timedId } from '../../base/clock.ts'

/** How often a plugin may speak to one user in a minute. */
const mostPerMinute = 60

const noSession =
  'Leave `session` out to speak in a session of the plugin, or take the id that sessions.ensure answers. ' +
  'In a test, say something as a user of testApp first: the session of a thread() is made up.'

/** What the app knows of the users to whom plugins speak. */
export interface SpeakerRules {
  /** Whether this server knows a user who has no session. By default it knows nobody else. */
  knowsUser?(db: QueryExecutorProvider, did: string): Promise<boolean>
}

/** The parts by which words are recorded, and told to whoever has the session open. */
export interface SpeakerParts {
  readonly store: RunStore
  readonly sessions: Sessions
  readonly watchers: Watchers
  /** Tells users of the words who do not have the session open. */
  readonly notices?: Notices
  /** Says which plugin a tool is of. */
  readonly gates: { readonly pluginOf: (tool: string) => string | undefined }
}

type Outcome =
  | { readonly is: 'known'; readonly sessionId: string; readonly runId: string }
  | { readonly is: 'said'; readonly sessionId: string; readonly runId: string; isNew: boolean }
  | { readonly is: 'no-session' | 'no-user' }
  | { readonly is: 'too-many'; readonly leftMs: number }

const sessionNames = ['user', 'id', 'room', 'shared', 'title']

/**
 * Says what plugins say without a model. Words become a run that has ended when it is recorded, so whatever reads runs reads
 * them too. The run takes the session's next turn: a run that is under way has an earlier one and goes on, and the words
 * stand behind all that this run still says.
 */
export class Speaker {
  readonly #parts: SpeakerParts
  readonly #rules: SpeakerRules
  readonly #statements: ReturnType<typeof saidStatements>

  constructor(parts: SpeakerParts, rules: SpeakerRules) {
    this.#parts = parts
    this.#rules = rules
    this.#statements = saidStatements(parts.store)
  }

  /** `sessions` of one plugin. */
  of(plugin: string): Pick<PluginSessions, 'say' | 'ensure' | 'message'> {
    return {
      say: async (words) => this.#say(plugin, words),
      ensure: async (wanted) => this.#ensure(plugin, wanted),
      message: async (wanted) => this.#find(plugin, wanted),
    }
  }

  #ensure(plugin: string, wanted: WantedSession): Promise<EnsuredSession> {
    const { user, id, room, shared, title }: Partial<WantedSession> = fieldsIn(wanted)
    const what = `A session of plugin ${plugin}`
    const did = readDid(what, user)
    refuseUnknown(`${what} is asked for with`, wanted, sessionNames)
    return this.#parts.sessions.ensure(did, { id, room, shared, title, plugin })
  }

  #find(plugin: string, wanted: WantedMessage): Promise<FoundMessage | undefined> {
    const { store, gates } = this.#parts
    const { user, session, id }: Partial<WantedMessage> = fieldsIn(wanted)
    const did = readDid(`A message that plugin ${plugin} asks for`, user)
    return findMessage(store.db, { did, session: String(session), id: String(id) }, gates.pluginOf)
  }

  async #say(plugin: string, given: NewWords): Promise<SaidWords> {
    const { store, sessions, watchers, notices } = this.#parts
    const words = readNewWords(plugin, given)
    const runId = timedId()
    const outcome = await store.commits.atomic((trx) => this.#record(trx, words, runId))
    switch (outcome.is) {
      case 'no-session':
        throw new RuntimeError(
          'NOT_FOUND',
          `${words.did} has no session "${words.session}" to speak in.`,
          { hint: noSession },
        )
      case 'no-user':
        throw new RuntimeError('UNKNOWN_USER', `${words.did} has never used this oracle.`, {
          hint: 'A plugin speaks to users who have a session here, a delegation or a grant.',
        })
      case 'too-many':
        throw tooMany(plugin, outcome.leftMs)
      case 'said':
        watchers.began(outcome.sessionId, runId)
        if (outcome.isNew) sessions.tellMade(words.did, outcome.sessionId)
        for (const state of ['began', 'ended'])
          notices?.tell(words.did, 'run', { runId, sessionId: outcome.sessionId, state })
    }
    return { sessionId: outcome.sessionId, messageId: messageIdOf(outcome.runId) }
  }

  /** Records the words. A refusal is a value, because a throw would undo what the caller wrote in the same transaction. */
  async #record(trx: RunDatabase, words: Words, runId: string): Promise<Outcome> {
    const { count, takeTurn } = this.#statements
    const { did, plugin, key } = words
    const [counted] = (await count({ did, plugin }, trx)).rows
    const known = key === undefined ? undefined : await findSaid(trx, { did, plugin, key })
    if (known) {
      await forgetCount(trx, words)
      return { is: 'known', ...known }
    }
    if (counted && counted.said > mostPerMinute) return { is: 'too-many', leftMs: counted.leftMs }
    const { sessionId: session, isNew = false } = words.session
      ? { sessionId: words.session }
      : ((await this.#sessionFor(trx, words)) ?? {})
    if (session === undefined) return await uncounted(trx, words, 'no-user')
    const title = words.title ?? (words.text === '' ? null : titleOf(words.text))
    const [taken] = (await takeTurn({ session, did, title }, trx)).rows
    if (!taken) return await uncounted(trx, words, 'no-session')
    await this.#insert(trx, words, { runId, session, turn: taken.turns })
    if (words.notify)
      await this.#parts.notices?.add(trx, {
        did,
        kind: 'say',
        plugin,
        title: words.title ?? taken.title ?? '',
        text: words.text || (words.component?.name ?? ''),
        sessionId: session,
        runId,
        key: `run:${runId}`,
      })
    return { is: 'said', sessionId: session, runId, isNew }
  }

  async #insert(
    trx: RunDatabase,
    { did, plugin, key, text, component }: Words,
    { runId, session, turn }: { runId: string; session: string; turn: number },
  ): Promise<void> {
    const { insertKey, insertRun, insertEvents, insertWords } = this.#statements
    const rendered: RenderedComponent | undefined = component && {
      eventId: `${runId}-1`,
      ...component,
    }
    const facts = { runId, sessionId: session, requestId: runId }
    const events = eventsOf(facts, text, rendered)
    const began = telling(channelOfSession(session), `began ${runId} ${session}`)
    const { length } = text
    await insertRun({ id: runId, session, did, turn, events: events.length, length, ...began }, trx)
    for (const batch of toBatches(events)) await insertEvents({ run_id: runId, ...batch }, trx)
    const message: PluginMessage = {
      role: 'assistant',
      id: messageIdOf(runId),
      content: text,
      said: { plugin, component: rendered },
    }
    const position = positionOf(turn, 0)
    const body = JSON.stringify(message)
    await insertWords(
      { session_id: session, position, run_id: runId, kind: 'assistant', body },
      trx,
    )
    if (key !== undefined)
      await insertKey({ did, plugin, key, session_id: session, run_id: runId }, trx)
  }

  /** The user's newest session of the plugin, or a new one; undefined for a user whom this server does not know. */
  async #sessionFor(trx: RunDatabase, { did, plugin }: Words): Promise<EnsuredSession | undefined> {
    const any = await trx
      .selectFrom('kernel_sessions')
      .select('id')
      .where('did', '=', did)
      .limit(1)
      .executeTakeFirst()
    if (!any && !(await this.#rules.knowsUser?.(trx, did))) return undefined
    return this.#parts.sessions.newestOrNew(trx, did, { plugin, room: null })
  }
}

const messageIdOf = (runId: string): string => `said-${runId}`

/** What was said by a key. */
async function findSaid(
  trx: RunDatabase,
  { did, plugin, key }: { did: string; plugin: string; key: string },
): Promise<{ sessionId: string; runId: string } | undefined> {
  const row = await trx
    .selectFrom('kernel_said_keys')
    .select(['session_id', 'run_id'])
    .where('did', '=', did)
    .where('plugin', '=', plugin)
    .where('key', '=', key)
    .executeTakeFirst()
  return row && { sessionId: row.session_id, runId: row.run_id }
}

/** Takes back the count of words that were not said. */
async function forgetCount(trx: RunDatabase, { did, plugin }: Words): Promise<void> {
  await trx
    .updateTable('kernel_said_counts')
    .set((eb) => ({ said: eb('said', '-', 1) }))
    .where('did', '=', did)
    .where('plugin', '=', plugin)
    .execute()
}

async function uncounted<Is extends string>(
  trx: RunDatabase,
  words: Words,
  is: Is,
): Promise<{ is: Is }> {
  await forgetCount(trx, words)
  return { is }
}

function tooMany(plugin: string, leftMs: number): RuntimeError {
  const seconds = Math.max(1, Math.ceil(leftMs / 1000))
  return new RuntimeError(
    'RATE_LIMITED',
    `Plugin ${plugin} has said ${mostPerMinute} things to this user within a minute.`,
    {
      hint: `Say several things at once, or try again in ${seconds} seconds.`,
      headers: { 'Retry-After': String(seconds) },
    },
  )
}
