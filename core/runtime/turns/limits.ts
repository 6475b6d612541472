import { createHash } from 'node:crypto'
import { RuntimeError } from '../../errors.ts'

/** How many turns people may have. Several people share an address, so one may have `addressFactor` times as many. */
export interface TurnLimits {
  /** Under way at once, and begun in a day (UTC), for each DID. */
  readonly atOnce: number
  readonly perDay: number
  readonly addressFactor: number
  /** Under way at once in this process, whoever's they are. */
  readonly atOnceTotal: number
}

/** Who wants a turn, and where: the address by its `dayNameOf`. Most turns that a plugin starts have no address. */
export interface Asking {
  readonly did: string
  readonly sessionId: string
  readonly address?: string
}

/** After so many seconds a turn may be tried again that was one too many at once. */
export const busyRetrySeconds = 5
const dayMs = 86_400_000

/**
 * The place of one turn among those of this process. The turn counts for its DID and address until it ends or is told to
 * end, whichever comes first, and for the process until it has ended.
 */
export class Seat {
  readonly #seats: Seats
  readonly asking: Asking
  #state: 'free' | 'taken' | 'stopped' = 'free'

  constructor(seats: Seats, asking: Asking) {
    this.#seats = seats
    this.asking = asking
  }

  get limits(): TurnLimits {
    return this.#seats.limits
  }

  /** Takes the place, or throws TURNS_LIMIT. A transaction may run twice; its second run finds the place taken. */
  take(): void {
    if (this.#state !== 'free') return
    this.#seats.demand(this.asking)
    this.occupy()
  }

  /** Takes the place without asking: for a turn that goes on. */
  occupy(): void {
    this.#state = 'taken'
    this.#seats.add(this)
  }

  /** Notes that the turn was told to end: its user may begin another. */
  stopped(): void {
    if (this.#state !== 'taken') return
    this.#state = 'stopped'
    this.#seats.stop(this)
  }

  /** Gives the place back: the turn has ended, or did not begin after all. */
  leave(): void {
    this.stopped()
    if (this.#state !== 'stopped') return
    this.#state = 'free'
    this.#seats.remove()
  }
}

/** Counts the turns that are under way in this process. */
export class Seats {
  readonly limits: TurnLimits
  readonly #ofDid = new Map<string, Set<Seat>>()
  readonly #ofAddress = new Map<string, number>()
  #total = 0

  constructor(limits: TurnLimits) {
    this.limits = limits
  }

  for(asking: Asking): Seat {
    return new Seat(this, asking)
  }

  /**
   * Throws when one more turn is one too many. A session has one turn at a time, so the turn that is under way there ends for
   * the new one and is not counted: no user is kept out by a turn that the new message supersedes.
   */
  demand({ did, sessionId, address }: Asking): void {
    const { atOnce, addressFactor, atOnceTotal } = this.limits
    const own = [...(this.#ofDid.get(did) ?? [])].map(({ asking }) => asking)
    const replaced = own.filter((asking) => asking.sessionId === sessionId)
    const sessions = new Set(own.map((asking) => asking.sessionId))
    sessions.delete(sessionId)
    if (sessions.size >= atOnce) throw tooManyAtOnce(atOnce)
    const atAddress = address === undefined ? 0 : (this.#ofAddress.get(address) ?? 0)
    const replacedThere = replaced.filter((asking) => asking.address === address).length
    if (address !== undefined && atAddress - replacedThere >= atOnce * addressFactor)
      throw refused(
        `${count(atOnce * addressFactor, 'turn is', 'turns are')} under way from this address, which is as many as one address may have.`,
        busyRetrySeconds,
        { limit: 'TURNS_AT_ONCE * ADDRESS_FACTOR', of: 'address', max: atOnce * addressFactor },
      )
    if (this.#total - replaced.length >= atOnceTotal)
      throw refused(
        `${count(atOnceTotal, 'turn is', 'turns are')} under way on this server, which is as many as it takes.`,
        busyRetrySeconds,
        { limit: 'TURNS_AT_ONCE_TOTAL', of: 'server', max: atOnceTotal },
      )
  }

  add(seat: Seat): void {
    const { did, address } = seat.asking
    const seats = this.#ofDid.get(did)
    if (seats) seats.add(seat)
    else this.#ofDid.set(did, new Set([seat]))
    if (address !== undefined) this.#ofAddress.set(address, (this.#ofAddress.get(address) ?? 0) + 1)
    this.#total++
  }

  stop(seat: Seat): void {
    const { did, address } = seat.asking
    const seats = this.#ofDid.get(did)
    seats?.delete(seat)
    if (seats?.size === 0) this.#ofDid.delete(did)
    if (address === undefined) return
    const others = (this.#ofAddress.get(address) ?? 1) - 1
    if (others > 0) this.#ofAddress.set(address, others)
    else this.#ofAddress.delete(address)
  }

  remove(): void {
    this.#total--
  }
}

/** Refuses a DID whose turns are under way here and elsewhere. */
export function demandAtOnce({ atOnce }: TurnLimits, busySessions: number): void {
  if (busySessions >= atOnce) throw tooManyAtOnce(atOnce)
}

/** Refuses what would be one turn too many for a day: `turns` counts it already. */
export function demandDay(limits: TurnLimits, of: 'did' | 'address', turns: number): void {
  const { perDay, addressFactor } = limits
  const max = of === 'did' ? perDay : perDay * addressFactor
  if (turns <= max) return
  const seconds = Math.ceil((dayMs - (Date.now() % dayMs)) / 1000) + 1
  const [whose, limit] =
    of === 'did'
      ? (['You have', 'TURNS_PER_DAY'] as const)
      : (['This address has', 'TURNS_PER_DAY * ADDRESS_FACTOR'] as const)
  throw refused(
    `${whose} begun ${count(max, 'turn', 'turns')} today, which is as many as there are for a day. The day ends at 00:00 UTC.`,
    seconds,
    { limit, of, max },
  )
}

/** The name of an address where turns are counted: a digest, so that no table holds an address in plain text. */
export function dayNameOf(address: string): string {
  let name = dayNames.get(address)
  if (name === undefined) {
    name = `address:${createHash('sha256').update(address).digest('base64url').slice(0, 22)}`
    if (dayNames.size >= mostDayNames) dayNames.clear()
    dayNames.set(address, name)
  }
  return name
}

const mostDayNames = 1_000
const dayNames = new Map<string, string>()

const tooManyAtOnce = (atOnce: number) =>
  refused(
    `You have ${count(atOnce, 'turn', 'turns')} under way, which is as many as you may have at once.`,
    busyRetrySeconds,
    { limit: 'TURNS_AT_ONCE', of: 'did', max: atOnce },
    'Wait until one has ended, or stop one.',
  )

function refused(message: string, seconds: number, details: object, hint?: string): RuntimeError {
  return new RuntimeError('TURNS_LIMIT', message, {
    hint: hint ?? `Try again in ${seconds} seconds.`,
    headers: { 'Retry-After': String(seconds) },
    details,
  })
}

const count = (n: number, one: string, many: string) =>
  `${n.toLocaleString('en')} ${n === 1 ? one : many}`
