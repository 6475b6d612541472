import { setTimeout as pause } from 'node:timers/promises'
import type { Job, Log } from '#core'
import { z } from 'zod'
import type { PaymentService } from './service.ts'

/** What the jobs of payments take. */
export const jobInputs = { send: z.object({ entry: z.uuid() }) }

/** How long the job waits before it looks again whether the ledger has a transaction. */
const nextLook = { firstMs: 1_000, mostMs: 30_000 }

/** Sends what waits in the outbox, and looks again until the ledger has it. */
export async function sendOut(service: PaymentService, job: Job): Promise<void> {
  if (await (await service.outbox()).drain(job.signal)) return
  job.retryIn(Math.min(nextLook.firstMs * job.attempt, nextLook.mostMs))
}

/** How often payments that nobody settled are looked for, and how often old rows go: after every so many looks. */
const lookMs = 30_000
const looksPerTidying = 120
/** How soon the next look is where something is left to send, which another process may have begun and died over. */
const soonMs = 3_000

/**
 * Looks for payments that nobody settled, and forgets what is old, until the server closes. Every replica does; a payment
 * counts once all the same. Where turns have no price nothing of this runs.
 */
export async function keepUp(
  service: PaymentService,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  for (let look = 0; !signal.aborted; look++) {
    let isLeft = false
    try {
      if (look % looksPerTidying === 0) await tidy(service)
      if (await hasOpen(service)) await (await service.payments()).sweep()
      if (service.hasKey) isLeft = await collectOld(service, signal)
    } catch (error) {
      if (!signal.aborted)
        log.warn({ err: error }, 'payments could not be looked for; trying again')
    }
    await pause(isLeft ? soonMs : lookMs, undefined, { signal, ref: false }).catch(() => undefined)
  }
}

async function tidy({ db, books }: PaymentService): Promise<void> {
  const { expireAdvances } = await import('./accounts/claims.ts')
  const { forgetAddresses, forgetSent, forgetStrangers, forgetUnpaid } =
    await import('./accounts/tidy.ts')
  const now = books.now()
  await expireAdvances(db, now)
  await forgetUnpaid(db, now)
  await forgetSent(db, now)
  await forgetAddresses(db, now)
  await forgetStrangers(db, now)
}

/** Whether a payment is looked for, or a claim stands on the ledger. */
async function hasOpen({ db }: PaymentService): Promise<boolean> {
  const open = await db
    .selectFrom('payments_payments')
    .select('id')
    .where('status', '=', 'open')
    .executeTakeFirst()
  if (open) return true
  const standing = await db
    .selectFrom('payments_claims')
    .select('id')
    .where('standing', '=', 'submitted')
    .where('status', 'in', ['open', 'disputed'])
    .executeTakeFirst()
  return standing !== undefined
}

/** How many contracts one look takes. */
const contractsPerLook = 500

/** Collects by contracts what has been due for an hour, and sends what another process left. True where something is left. */
async function collectOld(service: PaymentService, signal: AbortSignal): Promise<boolean> {
  const { db, books } = service
  const contracts = await db
    .selectFrom('payments_contracts')
    .select('did')
    .where('status', '=', 'active')
    .orderBy('created_at')
    .limit(contractsPerLook)
    .execute()
  if (contracts.length > 0) {
    const { lockAccount } = await import('./accounts/account.ts')
    const { collectDue } = await import('./contracts/grants.ts')
    for (const { did } of contracts)
      await db.transaction().execute(async (trx) => {
        await lockAccount(trx, did, books.now())
        await collectDue(trx, books, did)
      })
  }
  const left = await db
    .selectFrom('payments_outbox')
    .select('id')
    .where('status', 'in', ['waiting', 'signed'])
    .executeTakeFirst()
  return left !== undefined && !(await (await service.outbox()).drain(signal))
}
