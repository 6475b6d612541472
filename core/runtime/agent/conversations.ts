import { z } from 'zod'
import type { KernelEnv } from '../../manifest/kernel-env.ts'
import type { AnyRoute, Log, Turns, User } from '../../plugin.ts'
import { Agent } from './agent.ts'
import type { AuditTrail } from '../audit/trail.ts'
import { clientToolsFault } from './tools/client-tools.ts'
import { TALK } from '../../manifest/abilities.ts'
import { notGranted, type Rights } from '../auth/grants/rights.ts'
import type { Places } from '../http/limits/places.ts'
import type { Models } from '../model/choose.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import type { Rooms } from '../boot/plugin-routes.ts'
import { Runs } from '../turns/carry/runs.ts'
import { turnRoutes } from '../turns/wire/routes.ts'
import type { Store } from '../store/store.ts'
import type { Tools } from './tools/tools.ts'

export interface ConversationOptions {
  readonly config: KernelEnv
  readonly oracleDid: string
  readonly records: readonly PluginRecord[]
  readonly tools: Tools
  readonly store: Store
  readonly rooms: Rooms
  readonly models: Models
  /** What the operator has granted. */
  readonly rights: Rights
  /** Where open event streams are counted. */
  readonly streams: Places
  /** A user again, without a request: for a run that another process began. */
  readonly restoreUser: (did: string) => Promise<User>
  readonly isRevoked?: (cids: readonly string[]) => boolean | Promise<boolean>
  /** Told before a run of another process is carried on. */
  readonly onTakeover?: () => void
  readonly audit: AuditTrail
  readonly log: Log
}

/** The agent and its runs: what makes the runtime talk. */
export interface Conversations extends Turns {
  readonly runs: Runs
  readonly routes: Readonly<Record<string, AnyRoute>>
  /** A plugin whose setup finished after the server was up. */
  join(): void
}

export function createConversations(options: ConversationOptions): Conversations {
  const { config, oracleDid, records, tools, store, rooms, models } = options
  const { rights, restoreUser, streams, log } = options
  const agent = new Agent({
    records,
    tools,
    db: store.db,
    rooms,
    log,
    audit: options.audit,
    name: config.ORACLE_NAME,
    oracleDid,
    rights,
    isRevoked: options.isRevoked,
    model: (name) => models.get(name),
    clientToolTimeoutMs: config.BROWSER_TOOL_TIMEOUT_MS,
  })
  const runs = new Runs({
    store,
    log,
    engine: agent.engine,
    oracle: { name: config.ORACLE_NAME, did: oracleDid, entityDid: config.ORACLE_ENTITY_DID },
    leaseMs: config.RUN_LEASE_MS,
    retentionHours: config.RUN_RETENTION_HOURS,
    limits: {
      atOnce: config.TURNS_AT_ONCE,
      perDay: config.TURNS_PER_DAY,
      addressFactor: config.ADDRESS_FACTOR,
      atOnceTotal: config.TURNS_AT_ONCE_TOTAL,
    },
    roomOf: (did) => rooms.of(did),
    restoreUser,
    rights,
    mayTalk: config.ACCESS === 'granted' ? (user) => demandTalk(user, rights) : undefined,
    onTakeover: options.onTakeover,
    onSessionDeleted: (sessionId) => agent.forget(sessionId),
  })

  const routes = turnRoutes({
    runs,
    db: store.db,
    log,
    streams,
    checkRequest(request) {
      if (request.model !== undefined) models.get(request.model)
      const fault = clientToolsFault(request, tools)
      if (fault) throw fault
    },
    async loadCapabilities({ sessionId, names }) {
      const { result, checkpoint } = await agent.load(
        { id: sessionId, checkpoint: await runs.headOf(sessionId) },
        names,
      )
      if (checkpoint) await runs.moveHead(sessionId, checkpoint)
      return result
    },
  })

  // Loaded when somebody comes who may begin a turn: a server that only answers routes never needs it.
  const warm = () => {
    agent.warm().catch((err: unknown) => log.error({ err }, 'the engine could not be loaded'))
  }

  return {
    runs,
    routes: { ...whenUsed(routes, warm), ...catalogueRoutes(options, agent, runs) },
    start: (turn) => runs.start(turn),
    join: () => agent.join(),
  }
}

/** Refuses a turn of whoever was not granted to talk to the agent. A plugin's own user is judged by his DID. */
async function demandTalk(user: User, rights: Rights): Promise<void> {
  await rights.refresh(user.did)
  if (rights.granted(user.did, TALK) || user.can(TALK, rights.oracleDid)) return
  throw notGranted(user, TALK, rights.oracleDid, 'Talking to the agent')
}

/** The same routes. The first time that one of them is called, `then` is, once the answer is under way. */
function whenUsed(
  routes: Readonly<Record<string, AnyRoute>>,
  then: () => void,
): Record<string, AnyRoute> {
  let isUsed = false
  const noted = (route: AnyRoute): AnyRoute => ({
    ...route,
    run(input, ctx) {
      if (!isUsed) setTimeout(then, 10)
      isUsed = true
      return route.run(input, ctx)
    },
  })
  return Object.fromEntries(Object.entries(routes).map(([key, route]) => [key, noted(route)]))
}

const capabilitiesInput = z.object({
  sessionId: z.string().min(1).max(100).optional().describe('Says what is loaded in this session'),
})

function catalogueRoutes(
  { rooms, models }: ConversationOptions,
  agent: Agent,
  runs: Runs,
): Record<string, AnyRoute> {
  return {
    'GET /capabilities': {
      summary: 'Every plugin with its state, its tools and its share of the prompt.',
      input: capabilitiesInput,
      async run(input, { user, requestId }) {
        const { sessionId } = input as z.output<typeof capabilitiesInput>
        const caller = { user: user!, room: rooms.of(user!.did), requestId } // a ucan route has a user
        if (sessionId === undefined) return agent.capabilities(caller)
        await runs.sessions.demand(caller.user.did, sessionId)
        return agent.capabilities(caller, {
          id: sessionId,
          checkpoint: await runs.headOf(sessionId),
        })
      },
    },
    'GET /models': {
      auth: 'public',
      summary: 'The models that a turn may ask for.',
      run: () => ({
        models: models.all.map(({ id, label = id, contextWindow }) => ({
          id,
          label,
          contextWindow,
          isDefault: id === models.default.id,
        })),
        default: models.default.id,
      }),
    },
  }
}
