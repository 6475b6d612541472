import type { ChargeRow } from '../tables.ts'

/** A charge that began in this process, as its row has it, with the balance that its account had then. */
export type BegunCharge = Pick<
  ChargeRow,
  'did' | 'status' | 'held' | 'free_day' | 'free_address'
> & {
  readonly balance: number
}

/** So many charges, the newest, are remembered. */
const most = 5_000

/**
 * The charges that began in this process and have not ended: what their ends need to know is not read again. The database has
 * the last word: where a row is not as it is remembered here, nothing is billed by it, and the next try reads it.
 */
export class BegunCharges {
  readonly #charges = new Map<string, BegunCharge>()

  note(runId: string, charge: BegunCharge): void {
    this.#charges.set(runId, charge)
    if (this.#charges.size <= most) return
    for (const oldest of this.#charges.keys()) {
      this.#charges.delete(oldest)
      break
    }
  }

  /** The charge of a run, which is forgotten here with that: another try reads its row. */
  take(runId: string): BegunCharge | undefined {
    const charge = this.#charges.get(runId)
    this.#charges.delete(runId)
    return charge
  }

  /** What is remembered of the charge is not sure any more: its end reads the rows. */
  forget(runId: string): void {
    this.#charges.delete(runId)
  }
}
