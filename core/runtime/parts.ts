import { isForAuthors } from '../manifest/env.ts'
import type { ModelCall } from '../plugin.ts'
import { metricsOf } from './telemetry/plugin-metrics.ts'
import { Conversations } from './agent/conversations.ts'
import { Tools } from './agent/tools/tools.ts'
import type { Did } from './auth/did/did.ts'
import { signerFromMnemonic } from './auth/did/signer.ts'
import type { Grantable } from './auth/grants/request.ts'
import { Identity } from './auth/identity.ts'
import { machineNow, type Timed } from './base/clock.ts'
import { masking } from './base/log.ts'
import { isActive, stateLine } from './base/plugin-record.ts'
import type { Blueprint } from './blueprint.ts'
import { authorsWords } from './boot/environment.ts'
import { UsageListeners } from './boot/on-usage.ts'
import { Setups } from './boot/setup.ts'
import type { Closers } from './closers.ts'
import { LazyAttachments } from './attachments/lazy.ts'
import { Files } from './files/files.ts'
import { type Ground, openGround } from './ground.ts'
import type { Http } from './http/http.ts'
import type { Erasures } from './kept/erasures.ts'
import { Places } from './http/limits/places.ts'
import { AppJobs } from './jobs/jobs.ts'
import { RateLimits } from './http/limits/rate-limit.ts'
import { LoopGuard } from './loop-guard.ts'
import { AppModels } from './model/aside/app-models.ts'
import { Embedding } from './model/embed/embedding.ts'
import { offerLines, pricesOf } from './model/offer-lines.ts'
import { measureApp } from './metrics.ts'
import { Notices, type NoticesOptions } from './notices/notices.ts'
import { OwnAddresses } from './own-addresses.ts'
import { serve } from './serve.ts'
import { Leases } from './leases/leases.ts'
import { Retention } from './retention/retention.ts'
import { RoomState } from './store/room-state.ts'
import { Members } from './told/members.ts'
import type { TestClock } from './boot/test-clock.ts'
import type { Runs } from './turns/carry/runs.ts'
import { withRunTables } from './turns/journal/tables.ts'
import { Search } from './turns/sessions/search.ts'
import { titlesOf } from './turns/titles.ts'
import { sealReports, surviveStrayRejections } from './watchdog/stray-faults.ts'

/** The parts of a running app that are needed after the boot. */
export interface Parts {
  readonly ground: Ground
  readonly identity: Identity
  readonly grantable: Grantable
  readonly setups: Setups
  readonly tools: Tools
  readonly jobs: AppJobs
  readonly leases: Leases
  readonly runs: Runs
  readonly conversations: Conversations
  readonly http: Http
  readonly addresses: OwnAddresses
  readonly guard: LoopGuard
  readonly erasures: Erasures
}

/** Opens everything up to listening: database, migrations, setups, tools, routes. */
export async function openParts(blueprint: Blueprint, closers: Closers): Promise<Parts> {
  const { config, records, instructions, log } = blueprint
  const { models } = blueprint.chosen
  sealReports()
  closers.add(surviveStrayRejections(log))
  const guard = new LoopGuard(config.EVENT_LOOP_LIMIT_MS, log, closers)
  const ground = await openGround(blueprint, closers)
  const { store, audit, telemetry } = ground
  const identity = new Identity({ ...blueprint, store, author: await authorOf(blueprint) })
  closers.add(() => identity.close())
  const addresses = new OwnAddresses(config)

  // No notice is made before both are there.
  const notices = noticesOf(blueprint, ground, (trx, notice) => jobs.carry(trx, notice))
  closers.add(() => notices.close())
  const jobs = jobsOf(blueprint, ground, guard, notices)
  const rooms = new RoomState({ db: store.db, log, oracleDid: identity.oracleDid })
  const listeners = new UsageListeners(records, log)
  const told = (call: ModelCall) => {
    telemetry.modelCall(call)
    listeners.tell(call)
  }
  const leases = new Leases({ store: ground.store, log, leaseMs: config.RUN_LEASE_MS })
  const members = new Members(records, log)
  const before = { ground, identity, addresses, jobs, rooms, leases, members, told }
  const setups = await openSetups(blueprint, before, closers)
  closers.add(() => leases.close())
  const setupFaults = [...(await setups.run(records.filter(isActive))), ...late(blueprint)]
  const limits = new RateLimits({ log, redis: ground.redis })
  closers.add(() => limits.close())
  // A setup that missed a variable has excluded its plugin.
  const active = records.filter(isActive)
  const tools = new Tools(active, { timeoutMs: config.TOOL_TIMEOUT_MS, limits })
  const kept = filesOf(blueprint, ground, closers)
  const streams = new Places(config.STREAMS_PER_ADDRESS, 'event streams of this address')
  const conversations = new Conversations({
    config,
    records,
    tools,
    store,
    rooms,
    models,
    instructions,
    streams,
    countSearch: limits.counter('searches', 30, 60_000, 'searches of this user'),
    ...kept,
    audit,
    log,
    onCall: (call) => told(call),
    telemetry,
    oracleDid: identity.oracleDid,
    rights: identity.grants,
    restoreUser: (did) => identity.auth.restore(did),
    isRevoked: (cids) => identity.isRevoked(cids),
    knowsUser: (db, did) => identity.knows(db, did),
    // A run that is taken over may have frozen the process that had it before.
    onTakeover: () => guard.begin(),
    notices,
  })
  const grantable = { records, ownDids: identity.ownDids }
  const served = { ...before, grantable, setups, setupFaults, tools, notices, streams }
  const { http, channel, erasures } = serve(
    blueprint,
    { ...served, rateLimits: limits, files: kept.files, conversations },
    closers,
  )

  const { registry } = telemetry
  measureApp({ registry, records, http, channel, jobs, store, backups: ground.backups, log })
  const retention = retentionOf(blueprint, ground, conversations.runs, notices)
  closers.add(() => retention.close())
  goByClock(blueprint.clock, [jobs, conversations.runs, notices, retention], closers)
  await beginWork(blueprint, { identity, notices, conversations, erasures, channel })
  retention.open()
  report(blueprint)
  const { runs } = conversations
  const opened = { ground, identity, grantable, setups, tools, jobs, leases, runs, http, addresses }
  return { ...opened, guard, erasures, conversations }
}

/** What begins to work once everything is there. */
interface Working {
  readonly identity: Identity
  readonly notices: { open(): Promise<void> }
  readonly conversations: Conversations
  readonly erasures: Erasures
  readonly channel: { open(): Promise<void> }
}

/** Lets everything begin to work, in this order. */
async function beginWork({ isAside }: Blueprint, working: Working): Promise<void> {
  const { identity, notices, conversations, erasures, channel } = working
  await identity.open()
  await notices.open()
  await conversations.runs.open({
    // Neither a caller nor a run may meet what a restored backup has brought back of an erased user.
    before: () => erasures.open(),
    takesOver: !isAside,
  })
  await channel.open()
}

/** The faults of models whose names could not be checked before every plugin was set up. */
const late = ({ chosen, embedder }: Blueprint) => [...chosen.late(), ...embedder.late()]

/** The files of users, and what brings the contents of attachments. */
function filesOf(
  { config, records, chosen, source, log }: Blueprint,
  { store }: Ground,
  closers: Closers,
): { readonly files: Files; readonly attachments: LazyAttachments } {
  const perUserBytes = config.FILES_PER_USER_MB * 1024 * 1024
  const files = new Files({ store, log, perUserBytes })
  closers.add(() => files.close())
  const web = { isForAuthors: isForAuthors(source), hosts: config.ATTACHMENT_HOSTS ?? [] }
  return { files, attachments: new LazyAttachments({ files, records, models: chosen.models, web }) }
}

/** Writes into the log what the boot has made: a line for each plugin, and for each model that is offered. */
function report({ records, chosen, embedder, log }: Blueprint): void {
  // A warning, because an operator looks for a plugin that the boot left out for want of a variable.
  for (const record of records)
    if (!record.isAdded) log[record.state === 'excluded' ? 'warn' : 'info'](stateLine(record))
  for (const line of [...offerLines(chosen.models), embedder.line, ...chosen.notes]) log.info(line)
  for (const line of chosen.warnings) log.warn(line)
}

/** The notices of the users. */
function noticesOf(
  { config, log }: Blueprint,
  { store }: Ground,
  deliver: NoticesOptions['deliver'],
): Notices {
  return new Notices({
    store,
    log,
    now: () => store.now,
    retentionDays: config.NOTICE_RETENTION_DAYS,
    titlesOf: (did, ids) => titlesOf(store.db, did, ids),
    deliver,
  })
}

/** What ends the data that are too old. */
function retentionOf(
  { config, log }: Blueprint,
  { store }: Ground,
  runs: Runs,
  notices: Notices,
): Retention {
  return new Retention({
    ...{ store, runs, notices, log },
    search: new Search(withRunTables(store.db)),
    leaseMs: config.RUN_LEASE_MS,
    approvalDays: config.APPROVAL_RETENTION_DAYS,
    sessionDays: config.SESSION_RETENTION_DAYS,
  })
}

/** The jobs of the plugins. None runs before the server listens. */
function jobsOf(
  blueprint: Blueprint,
  { store, audit, telemetry }: Ground,
  guard: LoopGuard,
  notices: Notices,
): AppJobs {
  const { config, records, plans, secrets, clock, log } = blueprint
  return new AppJobs({
    store,
    records,
    plans,
    log,
    audit,
    notices,
    leaseMs: config.RUN_LEASE_MS,
    concurrency: config.JOBS_CONCURRENCY,
    doneMs: config.JOB_RETENTION_DAYS * 86_400_000,
    masked: masking(secrets),
    // A job that was begun before may be what froze the process.
    onAttempt({ plugin, name }) {
      guard.begin()
      clock?.noteRun(`${plugin}.${name}`)
    },
    onEnded: (job) => telemetry.job(job),
    clock: clock?.now,
  })
}

/** Lets a test's clock move the work that goes by time. */
function goByClock(clock: TestClock | undefined, timed: readonly Timed[], closers: Closers): void {
  if (clock) for (const each of timed) closers.add(clock.add(each))
}

interface BeforeSetups {
  readonly ground: Ground
  readonly identity: Identity
  readonly addresses: OwnAddresses
  readonly jobs: AppJobs
  readonly rooms: RoomState
  /** Hears of each call of a model. */
  readonly told: (call: ModelCall) => void
  readonly leases: Leases
  readonly members: Members
}

/** Brings the tables of the plugins up to date, and prepares what their setups get. */
async function openSetups(
  { config, records, envOf, fetch, clock, chosen, embedder, log }: Blueprint,
  { ground, identity, addresses, jobs, rooms, leases, members, told }: BeforeSetups,
  closers: Closers,
): Promise<Setups> {
  const { store, telemetry } = ground
  for (const { name, definition } of records.filter(isActive))
    if (definition.migrations) await store.migrate(name, definition.migrations)
  const models = new AppModels({
    models: chosen.models,
    embedding: new Embedding(embedder),
    log,
    tell: told,
  })
  const setups = new Setups({
    log,
    db: store.db,
    fetch,
    environment: config.NODE_ENV,
    oracle: {
      name: config.ORACLE_NAME,
      did: identity.oracleDid,
      aliases: identity.aliases,
      keysOf: (did) => identity.keysOf(did),
      url: () => addresses.told.apiUrl,
      ...(identity.signer && { key: identity.signer }),
    },
    holdsCredential: identity.holdsCredential,
    prices: () => [...pricesOf(chosen.models), ...embedder.priced],
    jobsOf: (definition) => jobs.of(definition),
    modelsOf: (plugin) => models.of(plugin),
    metricsOf: (plugin) => metricsOf(telemetry.registry, plugin),
    rooms,
    leases,
    members,
    now: clock?.now ?? machineNow,
    envOf,
  })
  closers.add(() => setups.close())
  return setups
}

/** The user that `npm run chat` and `npm run token` sign as; an app that serves others has none. */
async function authorOf({ dataDir, config }: Blueprint): Promise<Did | undefined> {
  if (!dataDir || !isForAuthors({ NODE_ENV: config.NODE_ENV })) return undefined
  return signerFromMnemonic(await authorsWords(dataDir)).did
}
