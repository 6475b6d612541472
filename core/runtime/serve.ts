import type { Context } from 'koa'
import type { RuntimeError } from '../errors.ts'
import type { HttpLayer, Log, RouteContext } from '../plugin.ts'
import { type Conversations, demandTalk } from './agent/conversations.ts'
import { CallsOutside } from './agent/outside/outside-tools.ts'
import { SessionsForPlugins } from './agent/outside/plugin-sessions.ts'
import type { Tools } from './agent/tools/tools.ts'
import { Callers } from './auth/callers.ts'
import type { Grantable } from './auth/grants/request.ts'
import type { Identity } from './auth/identity.ts'
import { machineNow } from './base/clock.ts'
import { watchedLayer } from './base/onion.ts'
import { isActive, isOpen, type PluginRecord } from './base/plugin-record.ts'
import { runtimeVersion } from './base/version.ts'
import type { Blueprint } from './blueprint.ts'
import { checkMade, errorWordsOf, mountsOf } from './boot/plan.ts'
import { pluginRoutes } from './boot/plugin-routes.ts'
import { pendingIn } from './boot/refusal.ts'
import type { RoomState } from './store/room-state.ts'
import { isProbe } from './boot/probes.ts'
import type { Setups } from './boot/setup.ts'
import { stopOn } from './boot/stop-on.ts'
import { factsOf, headersOf } from './told/told.ts'
import { Channel } from './channel/channel.ts'
import type { Closers } from './closers.ts'
import type { Files } from './files/files.ts'
import { openKept } from './kept/kept.ts'
import type { Erasures } from './kept/erasures.ts'
import type { Ground } from './ground.ts'
import { Http } from './http/http.ts'
import { RequestLog } from './http/answer/request-log.ts'
import { RequestWatch } from './http/answer/request-watch.ts'
import { connectionsAllowed } from './http/limits/connections.ts'
import type { Places } from './http/limits/places.ts'
import type { RateLimits } from './http/limits/rate-limit.ts'
import type { ServedRoute } from './http/routes/run-route.ts'
import type { AppJobs } from './jobs/jobs.ts'
import { kernelRoutes } from './kernel-routes.ts'
import type { Notices } from './notices/notices.ts'
import type { OwnAddresses } from './own-addresses.ts'
import { isConnectionError } from './store/database-errors.ts'
import { operatorsTooKeys, provesLaterKeys } from './turns/wire/route-keys.ts'

/** The parts that the HTTP server and the sockets serve, or need for serving. */
export interface Served {
  readonly ground: Ground
  readonly identity: Identity
  readonly grantable: Grantable
  readonly addresses: OwnAddresses
  readonly setups: Setups
  /** The faults of the setups, which stop the boot together with those of the routes. */
  readonly setupFaults: readonly RuntimeError[]
  readonly rateLimits: RateLimits
  readonly tools: Tools
  readonly rooms: RoomState
  readonly jobs: AppJobs
  readonly notices: Notices
  readonly files: Files
  readonly conversations: Conversations
  /** Where open event streams are counted. */
  readonly streams: Places
}

/** Makes the HTTP server and the sockets with every route behind them. Neither listens yet. */
export function serve(
  blueprint: Blueprint,
  served: Served,
  closers: Closers,
): { readonly http: Http; readonly channel: Channel; readonly erasures: Erasures } {
  const { config, records, log, chosen } = blueprint
  const { identity, addresses, setups, rateLimits, conversations, rooms, jobs } = served
  const { store, audit, telemetry } = served.ground
  const kept = keptOf(blueprint, served, (did) => channel.erased(did))
  closers.add(() => kept.erasures.close())
  // Some routes call the server or the channel, and both are made with the routes: such a handler runs when both are there.
  const kernel = kernelRoutes({
    config,
    records,
    models: chosen.models,
    ...served,
    kept,
    facts: () => factsOf(records, log),
    openapi: () => http.openapi(),
    onRevoked: (did) => channel.revoked(did),
  }).map(([key, route]): ServedRoute => {
    const own = { log, db: store.db, env: config, now: blueprint.clock?.now ?? machineNow }
    const context = (base: object) => Object.assign(base, own) as unknown as RouteContext
    return { key, owner: 'the kernel', route, context, ...specialOf(key) }
  })
  const routes = (): ServedRoute[] => [
    ...kernel,
    ...records.filter(isActive).flatMap((record) => pluginRoutes(record, rooms)),
  ]
  stopOn([...served.setupFaults, ...checkMade(records, routes())], log)

  const callers = callersOf(blueprint, served)
  const http = new Http({
    log,
    audit,
    rateLimits,
    db: store.db,
    watch: new RequestWatch({ ...telemetry, log: requestLogOf(blueprint, closers) }),
    streams: served.streams,
    routes: routes(),
    web: mountsOf(records),
    errors: errorWordsOf(records),
    unserved: () => pendingIn(records),
    access: callers,
    limits: limitsOf(blueprint),
    around: layersOf(blueprint, records),
    cors: config.CORS_ORIGIN,
    headers: headersOf(records),
    publicUrl: config.PUBLIC_URL,
    name: config.ORACLE_NAME,
    version: runtimeVersion,
    isUnreachable: isConnectionError,
  })
  const channel = new Channel({
    http,
    store,
    log,
    runs: conversations.runs,
    notices: served.notices,
    bySocket: (tokens) => callers.bySocket(tokens),
    isRevoked: (cids) => identity.isRevoked(cids),
    cors: config.CORS_ORIGIN,
    publicUrl: config.PUBLIC_URL,
    limits: { perAddress: config.SOCKETS_PER_ADDRESS, perDid: config.SOCKETS_PER_DID },
  })
  closers.add(() => channel.close())
  // At the same time: readers are told and requests answered, while other replicas take runs and jobs over.
  closers.add(() => Promise.all([http.close(), conversations.runs.close(), jobs.runner.close()]))
  const { runs } = conversations
  const sessions = new SessionsForPlugins({ runs, store, rooms, records })
  setups.goOn({
    sessionsOf: (plugin) => sessions.of(plugin),
    turnsOf: (plugin) => conversations.turnsOf(plugin),
    tools: callsOutside(blueprint, served),
    joinLate: (record) => joinLate(record, blueprint, served, { http, routes }),
  })
  return { http, channel, erasures: kept.erasures }
}

/** Calls of tools without a model and without a session. */
function callsOutside(
  { config, records, chosen, log }: Blueprint,
  { identity, tools, rooms, ground }: Served,
): CallsOutside {
  const { grants: rights } = identity
  return new CallsOutside({
    ...{ records: records.filter(isActive), tools, rooms, rights, log },
    audit: ground.audit,
    model: () => chosen.models.get(),
    demandTalk: config.ACCESS === 'granted' ? (user) => demandTalk(user, rights) : undefined,
  })
}

/** What is kept of users, as they see it, take it and have it erased. */
function keptOf(
  { config, records, dataDir, log }: Blueprint,
  { ground: { store }, identity, rateLimits, conversations, files }: Served,
  closeSockets: (did: string) => void,
) {
  return openKept({
    ...{ records, dataDir, log, rateLimits, closeSockets },
    signer: identity.signer,
    leaseMs: config.RUN_LEASE_MS,
    store,
    oracleDid: identity.oracleDid,
    deleteSession: (did, sessionId) => conversations.runs.deleteSession(did, sessionId),
    async revokeDelegation(did) {
      await identity.delegations.revoke(did, identity.oracleDid)
      identity.stored.forget(did)
    },
    endGrants: (did) => identity.grants.endAll(did),
    endKeys: (did) => identity.personalKeys.revokeAll(did),
    forgetFiles: (did) => files.forget(did),
  })
}

interface Joined {
  readonly http: Http
  /** Every route of the app, as it is now. */
  routes(): ServedRoute[]
}

/** A plugin whose setup took longer than boot waited: its tools and late-made routes are served from now on. */
function joinLate(
  record: PluginRecord,
  { records, log }: Blueprint,
  { tools, conversations }: Served,
  { http, routes }: Joined,
): void {
  const faults = checkMade(records, routes())
  const [first] = faults
  if (first === undefined) {
    tools.join(record)
    conversations.join()
    http.reroute(routes(), mountsOf(records))
    return
  }
  for (const { message } of faults) log.error(message)
  record.state = 'failed'
  record.reason = first.message
  record.base = undefined
  record.since = new Date()
}

const specialOf = (key: string) => ({
  isProbe: isProbe(key),
  isOperatorsToo: operatorsTooKeys.includes(key),
  provesLater: provesLaterKeys.includes(key),
})

interface CallerParts {
  readonly ground: Pick<Ground, 'store'>
  readonly identity: Identity
  readonly addresses: OwnAddresses
  readonly rateLimits: RateLimits
}

function callersOf(
  { config, log }: Blueprint,
  { identity, addresses, rateLimits, ground: { store } }: CallerParts,
): Callers {
  return new Callers({
    auth: identity.auth,
    apiKeys: identity.apiKeys,
    operatorTokens: identity.operatorTokens,
    personalKeys: identity.personalKeys,
    rights: identity.grants,
    rateLimits,
    authFailuresPerMinute: config.AUTH_FAILURES_PER_MINUTE,
    callsPerMinute: config.CALLS_PER_MINUTE,
    provesLater: store.kind === 'postgres',
    openToLoopback: config.NODE_ENV === 'development',
    isOwnOrigin: (origin) => addresses.isOwnOrigin(origin),
    log,
  })
}

const limitsOf = (blueprint: Blueprint) => ({
  ratePerMinute: blueprint.config.RATE_LIMIT_PER_MINUTE,
  trustProxy: blueprint.config.TRUST_PROXY_ENABLED,
  connections: connectionsOf(blueprint),
  uploadBytesPerS: blueprint.config.UPLOAD_MIN_BYTES_PER_S,
})

/** What writes a line about each request; undefined where no such line would be written. */
function requestLogOf(
  { config, log, writeLines }: Blueprint,
  closers: Closers,
): RequestLog | undefined {
  if (config.REQUEST_LOG === 'off' || !log.isLevelEnabled('info')) return undefined
  const requestLog = new RequestLog(writeLines, {
    mode: config.REQUEST_LOG,
    sample: config.REQUEST_LOG_SAMPLE,
    slowMs: config.SLOW_MS,
    showsAddresses: config.LOG_IP,
    showsDids: config.LOG_DIDS,
  })
  closers.add(() => requestLog.close())
  return requestLog
}

/** How many connections the server takes. The log warns when the process may open fewer than CONNECTIONS_TOTAL. */
function connectionsOf({ config: { CONNECTIONS_TOTAL: asked }, log }: Blueprint): number {
  const allowed = connectionsAllowed(asked)
  if (allowed < asked)
    log.warn(
      `CONNECTIONS_TOTAL is ${asked}, but the process may open too few files for that: ` +
        `it takes ${allowed} connections. Raise the limit (ulimit -n), or lower CONNECTIONS_TOTAL.`,
    )
  return allowed
}

/** The layers around every request, outermost first: those of the app, then those of the plugins. */
function layersOf({ http, log }: Blueprint, records: readonly PluginRecord[]): HttpLayer[] {
  return [
    ...http.map((layer) => watchedHttp(layer, 'a layer of createApp({ http })', log)),
    ...records.filter(isActive).flatMap((record) => httpLayers(record, log)),
  ]
}

/** The layer of a plugin around every request. While the plugin serves nothing, requests pass the layer by. */
function httpLayers(record: PluginRecord, log: Log): HttpLayer[] {
  const layer = record.definition.middleware?.http
  if (!layer) return []
  const open: HttpLayer = (koa, next) => (isOpen(record) ? layer(koa, next) : next())
  return [watchedHttp(open, `middleware.http of ${record.name}`, record.base?.log ?? log)]
}

/** The same layer, and the log warns when nothing of an answer is out because the layer hangs. */
function watchedHttp(around: HttpLayer, layer: string, log: Log): HttpLayer {
  return watchedLayer<Context, void>(around, ({ state, method, res }) => {
    const { requestId, route } = state
    const fields = { requestId, method, route }
    return res.headersSent || res.destroyed ? undefined : { log, layer, what: 'a request', fields }
  })
}
