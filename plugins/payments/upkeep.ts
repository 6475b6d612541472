import { setTimeout as pause } from 'node:timers/promises'
import type { Log } from '#core'
import type { PaymentService } from './service.ts'

/** How often payments that nobody settled are looked for, and how often old rows go: after every so many looks. */
const lookMs = 30_000
const looksPerTidying = 120

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
    try {
      if (look % looksPerTidying === 0) await tidy(service)
      if (await hasOpen(service)) await (await service.payments()).sweep()
    } catch (error) {
      if (!signal.aborted)
        log.warn({ err: error }, 'payments could not be looked for; trying again')
    }
    await pause(lookMs, undefined, { signal, ref: false }).catch(() => undefined)
  }
}

async function tidy({ db, books }: PaymentService): Promise<void> {
  const { expireAdvances } = await import('./accounts/claims.ts')
  const { forgetAddresses, forgetStrangers, forgetUnpaid } = await import('./accounts/tidy.ts')
  const now = books.now()
  await expireAdvances(db, now)
  await forgetUnpaid(db, now)
  await forgetAddresses(db, now)
  await forgetStrangers(db, now)
}

async function hasOpen({ db }: PaymentService): Promise<boolean> {
  const open = await db
    .selectFrom('payments_payments')
    .select('id')
    .where('status', '=', 'open')
    .executeTakeFirst()
  return open !== undefined
}
