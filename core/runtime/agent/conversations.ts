import type { KernelEnv } from '../../manifest/kernel-env.ts'
import { RuntimeError } from '../../errors.ts'
import { meant } from '../../manifest/did-you-mean.ts'
import type { AnyRoute, Log, ModelCall, Turns, User } from '../../plugin.ts'
import type { Instructions } from '../../plugin/context.ts'
import type { Agent } from './agent.ts'
import { checkAnswer } from './edited.ts'
import { LazyAgent } from './lazy.ts'
import { deleteCheckpoint } from './state/checkpoint-tables.ts'
import type { AuditTrail } from '../audit/trail.ts'
import { clientToolsFault } from './tools/client-tools.ts'
import { talkAbility } from '../../manifest/abilities.ts'
import { notGranted, type Rights } from '../auth/grants/rights.ts'
import type { Attachments } from '../attachments/attachments.ts'
import type { Files } from '../files/files.ts'
import type { Places } from '../http/limits/places.ts'
import type { Models } from '../model/choose.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import type { Notices } from '../notices/notices.ts'
import type { RoomState } from '../store/room-state.ts'
import { Branches } from '../turns/branches/branches.ts'
import { Runs } from '../turns/carry/runs.ts'
import type { SpeakerRules } from '../turns/said/speaker.ts'
import type { TurnRequest } from '../turns/run.ts'
import { RunGates } from '../turns/gates/gates.ts'
import { faultsOf, faultText } from '../../manifest/faults.ts'
import { handedTools } from '../turns/wire/input.ts'
import { turnRouteKeys, type TurnRoutes } from '../turns/wire/route-keys.ts'
import { turnRoutes } from '../turns/wire/routes.ts'
import { catalogueRouteKeys, catalogueRoutes } from './catalogue-routes.ts'
import type { Store } from '../store/store.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { RoomIds } from '../told/room-ids.ts'
import { redacted } from '../turns/wire/trace-text.ts'
import { writes } from './tools/entry.ts'
import type { Tools } from './tools/tools.ts'

/** What `Conversations` needs of the app. */
export interface ConversationOptions {
  readonly config: KernelEnv
  readonly oracleDid: string
  readonly records: readonly PluginRecord[]
  readonly tools: Tools
  readonly store: Store
  readonly rooms: RoomState
  readonly models: Models
  /** Who the agent is and how it speaks. */
  readonly instructions?: Instructions
  /** What the operator has granted. */
  readonly rights: Rights
  /** Where open event streams are counted. */
  readonly streams: Places
  /** Counts one search of a user, or throws for one too many. */
  readonly countSearch: (did: string) => Promise<void>
  /** Makes the user of a run that another process began, for which this process has no request. */
  readonly restoreUser: (did: string) => Promise<User>
  /** Whether this server knows a user who has no session. */
  readonly knowsUser?: SpeakerRules['knowsUser']
  readonly isRevoked?: (cids: readonly string[]) => boolean | Promise<boolean>
  /** Called before this process carries on a run of another process. */
  readonly onTakeover?: () => void
  /** Tells users what goes on in their sessions, also users who do not have the session open. */
  readonly notices?: Notices
  /** The files of users. */
  readonly files?: Files
  /** Brings what is attached to messages. */
  readonly attachments?: Pick<Attachments, 'attach'>
  /** Told of each call of a model when it has ended. */
  readonly onCall?: (call: ModelCall) => void
  readonly audit: AuditTrail
  /** Watches the turns. */
  readonly telemetry: Telemetry
  readonly log: Log
}

/** The keys of all routes about conversations. */
export const conversationRouteKeys = [...turnRouteKeys, ...catalogueRouteKeys] as const

/** The agent, its runs and the routes to both. Plugins begin turns through it. */
export class Conversations {
  readonly runs: Runs
  readonly routes: Readonly<Record<(typeof conversationRouteKeys)[number], AnyRoute>>
  readonly #agent: LazyAgent
  readonly #branches: Branches
  readonly #log: Log

  constructor(options: ConversationOptions) {
    const { config, oracleDid, records, tools, store, rooms, models, rights, log } = options
    this.#log = log
    const agent = new LazyAgent({
      records,
      tools,
      db: store.db,
      rooms,
      log,
      audit: options.audit,
      name: config.ORACLE_NAME,
      instructions: options.instructions,
      oracleDid,
      rights,
      isRevoked: options.isRevoked,
      onCall: options.onCall,
      model: (name) => models.get(name),
      files: options.files,
      clientToolTimeoutMs: config.BROWSER_TOOL_TIMEOUT_MS,
      promptBudgetMs: config.PROMPT_BUDGET_MS,
      ...(config.MODEL_SUMMARY && { summaries: { small: () => models.small } }),
      loopLimits: { modelCalls: config.TURN_MAX_CALLS, callsAtOnce: config.STEP_MAX_CALLS },
    })
    const roomIds = new RoomIds(records, log)
    const runs = new Runs({
      store,
      log,
      engine: agent.engine,
      usageOf: (run, said) => agent.usageOf(run, said),
      oracle: { name: config.ORACLE_NAME, did: oracleDid, entityDid: config.ORACLE_ENTITY_DID },
      leaseMs: config.RUN_LEASE_MS,
      runsPerProcess: config.RUNS_PER_PROCESS,
      retentionHours: config.RUN_RETENTION_HOURS,
      purgesItself: false,
      limits: {
        atOnce: config.TURNS_AT_ONCE,
        perDay: config.TURNS_PER_DAY,
        addressFactor: config.ADDRESS_FACTOR,
        atOnceTotal: config.TURNS_AT_ONCE_TOTAL,
      },
      restoreUser: options.restoreUser,
      rights,
      mayTalk: config.ACCESS === 'granted' ? (user) => demandTalk(user, rights) : undefined,
      attach: (user, requestId, request) =>
        options.attachments?.attach(user, requestId, request) ?? Promise.resolve(request),
      onTakeover: options.onTakeover,
      knowsUser: options.knowsUser,
      gates: new RunGates({ records, pluginOf: (tool) => tools.entry(tool)?.record?.name }),
      notices: options.notices,
      telemetry: options.telemetry,
      roomIdOf: (did) => roomIds.of(did),
      forgetCheckpoint: (sessionId, checkpoint) =>
        deleteCheckpoint(store.db, sessionId, checkpoint),
      onSessionDeleted: (sessionId) => agent.forget(sessionId),
      onRedacted: (sessionId) => agent.unlearn(sessionId),
      fork: async (did, sessionId, before) =>
        (await this.#branches.fork(did, sessionId, { before, branch: true }, noStep)).sessionId,
      checkRequest: (request) => checkRequest(request, options),
      checkDecision: (run, decision) => checkAnswer(store.db, tools, run, decision),
    })
    this.runs = runs
    this.#agent = agent
    this.#branches = branchesOf(options, agent, runs)
    this.routes = {
      ...whenUsed(routesOfTurns(options, agent, runs, this.#branches), () => this.#warm()),
      ...catalogueRoutes({ agent, runs, rooms, models }),
    }
  }

  /** `turns` of a plugin. */
  turnsOf(plugin: string): Turns {
    return this.runs.turnsOf(plugin)
  }

  /** Takes in a plugin whose setup finished after the server was up. */
  join(): void {
    this.#agent.join()
  }

  /** Loads the engine while the process is idle, so that the first chat does not wait for it. */
  warmInPieces(goesOn: () => boolean): Promise<void> {
    return this.#agent.warmInPieces(goesOn)
  }

  /** Loads the engine after the first call of a turn route: a server that gets no such call never needs the engine. */
  #warm(): void {
    this.#agent
      .warm()
      .catch((err: unknown) => this.#log.error({ err }, 'the engine failed to load'))
  }
}

/** Refuses a request that cannot become a turn: an unknown model or tool, or a tool of the client that cannot be offered. */
function checkRequest(
  request: TurnRequest,
  { tools, models }: Pick<ConversationOptions, 'tools' | 'models'>,
): void {
  if (request.model !== undefined) models.get(request.model)
  if (request.origin !== undefined && request.tools) demandTools(request.tools)
  const fault = clientToolsFault(request, tools)
  if (fault) throw fault
  const unknown = request.allow?.find((name) => !tools.isOffered(name) && !tools.mayBeGiven(name))
  if (unknown !== undefined)
    throw new RuntimeError(
      'INPUT_INVALID',
      `There is no tool "${unknown.slice(0, 64)}" to allow.`,
      {
        hint: meant(unknown, tools.offered()) || 'Name tools of plugins that are on.',
      },
    )
}

/** Refuses tools of a client that no model may be offered: the rules are those of a message over HTTP. */
function demandTools(tools: NonNullable<TurnRequest['tools']>): void {
  const parsed = handedTools.safeParse({ tools })
  if (parsed.success) return
  const faults = faultsOf(parsed.error)
  throw new RuntimeError('INPUT_INVALID', `The client's tools cannot be: ${faultText(faults)}.`, {
    details: faults,
  })
}

/** The conversations that branch off from others. */
function branchesOf(
  { store, tools }: ConversationOptions,
  agent: Pick<Agent, 'headOf'>,
  runs: Runs,
): Branches {
  const redactOf = (tool: string) => tools.entry(tool)?.tool?.redact
  return new Branches({
    store,
    sessions: runs.sessions,
    // What the kernel's own tools change, a branch has for itself.
    isWrite: (tool) => {
      const entry = tools.entry(tool)
      return writes(entry) && (entry === undefined || entry.record !== undefined)
    },
    shown: (tool, args) => redacted(args, redactOf(tool)),
    headOf: (kept, thread) => agent.headOf(kept, thread),
  })
}

/** A place of a branch that is a message needs no step. */
const noStep = async () => undefined

function routesOfTurns(
  options: ConversationOptions,
  agent: Pick<Agent, 'load' | 'headOf' | 'stateAt'>,
  runs: Runs,
  branches: Branches,
): TurnRoutes {
  const { store, streams, log, tools } = options
  const redactOf = (tool: string) => tools.entry(tool)?.tool?.redact
  return turnRoutes({
    branches,
    stateAt: (kept) => agent.stateAt(kept),
    showsState: options.config.NODE_ENV === 'development',
    runs,
    db: store.db,
    log,
    streams,
    countSearch: options.countSearch,
    redactOf,
    checkRequest: (request) => checkRequest(request, options),
    async loadCapabilities({ user, sessionId, names }) {
      const { result, checkpoint } = await agent.load(
        { id: sessionId, checkpoint: await runs.headOf(sessionId) },
        names,
        user,
      )
      const replaced = checkpoint && (await runs.moveHead(sessionId, checkpoint))
      if (replaced) await deleteCheckpoint(store.db, sessionId, replaced)
      return result
    },
  })
}

/** Refuses the turn of a user who may not talk to the agent. A user whom a plugin names has only the grants of the DID. */
export async function demandTalk(user: User, rights: Rights): Promise<void> {
  await rights.refresh(user.did)
  if (rights.granted(user.did, talkAbility) || user.can(talkAbility, rights.oracleDid)) return
  throw notGranted(user, talkAbility, rights.oracleDid, 'Talking to the agent')
}

/** The same routes. The first call of any of them also calls `then`, a moment later, so that the answer does not wait. */
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
