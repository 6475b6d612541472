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
import { turnRouteKeys, type TurnRoutes } from '../turns/wire/route-keys.ts'
import { turnRoutes } from '../turns/wire/routes.ts'
import { catalogueRouteKeys, catalogueRoutes } from './catalogue-routes.ts'
import type { Store } from '../store/store.ts'
import type { Tools } from './tools/tools.ts'

/** What conversations are made of. */
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

/** The keys of the routes of conversations. */
export const conversationRouteKeys = [...turnRouteKeys, ...catalogueRouteKeys] as const

/** The agent and its runs: what makes the runtime talk. */
export class Conversations implements Turns {
  readonly runs: Runs
  readonly routes: Readonly<Record<(typeof conversationRouteKeys)[number], AnyRoute>>
  readonly #agent: Agent
  readonly #log: Log

  constructor(options: ConversationOptions) {
    const { config, oracleDid, records, tools, store, rooms, models, rights, log } = options
    this.#log = log
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
      restoreUser: options.restoreUser,
      rights,
      mayTalk: config.ACCESS === 'granted' ? (user) => demandTalk(user, rights) : undefined,
      onTakeover: options.onTakeover,
      onSessionDeleted: (sessionId) => agent.forget(sessionId),
    })
    this.runs = runs
    this.#agent = agent
    this.routes = {
      ...whenUsed(routesOfTurns(options, agent, runs), () => this.#warm()),
      ...catalogueRoutes({ agent, runs, rooms, models }),
    }
  }

  start(turn: Parameters<Turns['start']>[0]): ReturnType<Turns['start']> {
    return this.runs.start(turn)
  }

  /** A plugin whose setup finished after the server was up. */
  join(): void {
    this.#agent.join()
  }

  /** Loaded when a caller comes who may begin a turn: a server that only answers routes never needs the engine. */
  #warm(): void {
    this.#agent
      .warm()
      .catch((err: unknown) => this.#log.error({ err }, 'the engine could not be loaded'))
  }
}

function routesOfTurns(
  { tools, models, store, streams, log }: ConversationOptions,
  agent: Agent,
  runs: Runs,
): TurnRoutes {
  return turnRoutes({
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
}

/** Refuses the turn of a user who was not granted to talk to the agent. A user whom a plugin names is judged by the DID. */
async function demandTalk(user: User, rights: Rights): Promise<void> {
  await rights.refresh(user.did)
  if (rights.granted(user.did, TALK) || user.can(TALK, rights.oracleDid)) return
  throw notGranted(user, TALK, rights.oracleDid, 'Talking to the agent')
}

/** The same routes. The first time that one of them is called, `then` is, once the answer is under way. */
function whenUsed(routes: TurnRoutes, then: () => void): TurnRoutes {
  let isUsed = false
  const noted = (route: AnyRoute): AnyRoute => ({
    ...route,
    run(input, ctx) {
      if (!isUsed) setTimeout(then, 10)
      isUsed = true
      return route.run(input, ctx)
    },
  })
  const entries = turnRouteKeys.map((key) => [key, noted(routes[key])] as const)
  return { ...routes, ...Object.fromEntries(entries) }
}
