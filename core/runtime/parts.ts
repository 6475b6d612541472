import { isForAuthors } from '../manifest/environments.ts'
import { Conversations } from './agent/conversations.ts'
import { Tools } from './agent/tools/tools.ts'
import type { AuditTrail } from './audit/trail.ts'
import type { Did } from './auth/did/did.ts'
import { signerFromMnemonic } from './auth/did/signer.ts'
import type { Grantable } from './auth/grants/request.ts'
import { Identity } from './auth/identity.ts'
import { isActive, stateLine } from './base/plugin-record.ts'
import type { Blueprint } from './blueprint.ts'
import { authorsWords } from './boot/environment.ts'
import type { Rooms } from './boot/plugin-routes.ts'
import { Setups } from './boot/setup.ts'
import type { Closers } from './closers.ts'
import { type Ground, openGround } from './ground.ts'
import type { Http } from './http/http.ts'
import { Places } from './http/limits/places.ts'
import { LoopGuard } from './loop-guard.ts'
import { OwnAddresses } from './own-addresses.ts'
import { serve } from './serve.ts'
import type { Lock } from './store/data-dir-lock.ts'
import { createRoomState, roomOf } from './store/room-state.ts'
import { surviveStrayRejections } from './watchdog/stray-faults.ts'

/** What a running app is made of, as far as it is asked for after the boot. */
export interface Parts {
  readonly lock: Lock | undefined
  readonly audit: AuditTrail
  readonly identity: Identity
  readonly grantable: Grantable
  readonly tools: Tools
  readonly http: Http
  readonly addresses: OwnAddresses
  readonly guard: LoopGuard
}

/** Opens everything up to listening: database, migrations, setups, tools, routes. */
export async function openParts(blueprint: Blueprint, closers: Closers): Promise<Parts> {
  const { config, records, models, log } = blueprint
  closers.add(surviveStrayRejections(log))
  const guard = new LoopGuard(config.EVENT_LOOP_LIMIT_MS, log, closers)
  const ground = await openGround(blueprint, closers)
  const { store, audit, lock } = ground
  const identity = new Identity({ ...blueprint, store, author: await authorOf(blueprint) })
  closers.add(() => identity.close())
  const addresses = new OwnAddresses(config)

  const setups = await openSetups(blueprint, { ground, identity, addresses }, closers)
  const setupFaults = await setups.run(records.filter(isActive))
  const tools = new Tools(records.filter(isActive)) // a setup may have missed a variable
  const rooms: Rooms = {
    ...createRoomState({ db: store.db, log }),
    of: (did) => roomOf(did, identity.oracleDid),
  }
  const streams = new Places(config.STREAMS_PER_ADDRESS, 'event streams of this address')
  const conversations = new Conversations({
    config,
    records,
    tools,
    store,
    rooms,
    models,
    streams,
    audit,
    log,
    oracleDid: identity.oracleDid,
    rights: identity.grants,
    restoreUser: (did) => identity.auth.restore(did),
    isRevoked: (cids) => identity.isRevoked(cids),
    // A run that is taken over may be what froze the process before.
    onTakeover: () => guard.begin(),
  })
  const grantable = { records, ownDids: identity.ownDids }
  const { http, channel } = serve(
    blueprint,
    {
      ground,
      identity,
      grantable,
      addresses,
      setups,
      setupFaults,
      tools,
      rooms,
      conversations,
      streams,
    },
    closers,
  )

  await identity.open()
  await conversations.runs.open()
  await channel.open()
  // A plugin that is left out for want of a variable is what an operator looks for.
  for (const record of records)
    log[record.state === 'excluded' ? 'warn' : 'info'](stateLine(record))
  log.info(`model: ${models.default.label ?? models.default.id}`)
  return { lock, audit, identity, grantable, tools, http, addresses, guard }
}

interface BeforeSetups {
  readonly ground: Ground
  readonly identity: Identity
  readonly addresses: OwnAddresses
}

/** Brings the tables of the plugins up to date, and prepares what their setups are given. */
async function openSetups(
  { records, envOf, fetch, log }: Blueprint,
  { ground: { store }, identity, addresses }: BeforeSetups,
  closers: Closers,
): Promise<Setups> {
  for (const { name, definition } of records.filter(isActive))
    if (definition.migrations) await store.migrate(name, definition.migrations)
  const setups = new Setups({
    log,
    db: store.db,
    fetch,
    oracle: {
      did: identity.oracleDid,
      aliases: identity.aliases,
      keysOf: (did) => identity.keysOf(did),
      url: () => addresses.told.apiUrl,
      ...(identity.signer && { key: identity.signer }),
    },
    holdsCredential: identity.holdsCredential,
    envOf,
  })
  closers.add(() => setups.close())
  return setups
}

/** The user that `npm run chat` and `npm run token` sign as; there is none where others are served. */
async function authorOf({ dataDir, config }: Blueprint): Promise<Did | undefined> {
  if (!dataDir || !isForAuthors({ NODE_ENV: config.NODE_ENV })) return undefined
  return signerFromMnemonic(await authorsWords(dataDir)).did
}
