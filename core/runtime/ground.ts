import type { Redis } from 'ioredis'
import { masking } from './base/log.ts'
import { AuditTable } from './audit/table.ts'
import { Telemetry } from './telemetry/telemetry.ts'
import { AuditTrail } from './audit/trail.ts'
import { type Backups, openBackups } from './backups.ts'
import type { Blueprint } from './blueprint.ts'
import { Readiness } from './boot/probes.ts'
import type { Closers } from './closers.ts'
import { openRedis } from './http/limits/redis.ts'
import { kernelMigrations } from './kernel-tables.ts'
import type { Lock } from './store/data-dir-lock.ts'
import { openStore, type Store } from './store/store.ts'

/** What the other parts of the app are built on: the database, its lock, the audit trail and Redis. */
export interface Ground {
  /** The lock that this process holds on the data directory while it writes there. */
  readonly lock: Lock | undefined
  readonly store: Store
  readonly audit: AuditTrail
  readonly redis: Redis | undefined
  readonly readiness: Readiness
  /** The copies that the server makes of an embedded database, where it makes some. */
  readonly backups: Backups | undefined
  /** Lines, metrics and spans of what the server does. */
  readonly telemetry: Telemetry
}

/** Opens the database with the kernel's tables, the audit trail and Redis. */
export async function openGround(blueprint: Blueprint, closers: Closers): Promise<Ground> {
  const { config, dataDir, clock, memory, log } = blueprint
  const { DATABASE_URL: databaseUrl, DATABASE_LISTEN_URL: listenUrl } = config
  const telemetry = await telemetryOf(blueprint)
  closers.add(() => telemetry.close())
  const lock = dataDir && !databaseUrl ? await dataDir.lock({ pid: process.pid }) : undefined
  closers.add(() => lock?.release())
  const isClockSet = clock !== undefined
  const store = await openStore({
    databaseUrl,
    listenUrl,
    redisUrl: config.REDIS_URL,
    busUrl: config.BUS_URL,
    poolSize: config.DATABASE_POOL,
    dataDir,
    memory,
    isClockSet,
    log,
  })
  closers.add(() => store.close())
  for (const [owner, migrations] of Object.entries(kernelMigrations))
    await store.migrate(owner, migrations)
  if (clock) closers.add(await clock.attach(store))
  const backups = await openBackups(blueprint)
  closers.add(() => backups?.close())
  const redis = await openRedis(config.REDIS_URL, log)
  closers.add(() => redis?.disconnect())
  const audit = auditTrail(blueprint, store)
  closers.add(() => audit.close())
  const readiness = new Readiness(() => store.ping())
  return { lock, store, audit, redis, telemetry, readiness, backups }
}

/** What tells of the work of this app. */
function telemetryOf({ config, source, log }: Blueprint): Promise<Telemetry> {
  const { REQUEST_LOG: mode, REQUEST_LOG_SAMPLE: sample, SLOW_MS: slowMs } = config
  const { ORACLE_NAME: name, RUN_TRACE: traces, OTEL_PROPAGATE_TO: propagateTo } = config
  const { OTEL_CAPTURE_CONTENT: words } = config
  const rules = { mode, sample, slowMs }
  return Telemetry.open({ log, rules, name, source, traces, propagateTo, words })
}

function auditTrail({ config, secrets, log }: Blueprint, store: Store): AuditTrail {
  const { AUDIT_TABLE, AUDIT_RETENTION_DAYS: retentionDays } = config
  const table = AUDIT_TABLE ? new AuditTable({ store, log, retentionDays }) : undefined
  return new AuditTrail(log, table, masking(secrets))
}
