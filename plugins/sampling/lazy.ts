import type { BeaconOptions } from './beacons/beacons.ts'
import type { Designs } from './design/designs.ts'
import type { Selections } from './selection/selections.ts'
import type { SamplingDatabase } from './tables.ts'

/** Designs and selections, which know each other. */
export interface Records {
  readonly designs: Designs
  readonly selections: Selections
}

/** Makes designs and selections with their first use: no start needs their arithmetic. */
export function recordsLater(db: SamplingDatabase, options: BeaconOptions): () => Promise<Records> {
  let making: Promise<Records> | undefined
  const make = async () => {
    const { Beacons, Designs, Selections } = await import('./parts.ts')
    const selections = new Selections(db, options.now, new Beacons(options))
    const designs = new Designs(db, (...asked) => selections.extend(...asked))
    return { designs, selections }
  }
  return () => (making ??= make())
}

/** `Designs`, loaded with their first use. */
export class LazyDesigns implements Pick<Designs, keyof Designs> {
  readonly #records: () => Promise<Records>

  constructor(records: () => Promise<Records>) {
    this.#records = records
  }

  /** A design, or an earlier revision of it. */
  async read(...asked: Parameters<Designs['read']>) {
    return (await this.#designs()).read(...asked)
  }

  /** A design for which its owner is about to commit a frame. */
  async readToCommit(...asked: Parameters<Designs['readToCommit']>) {
    return (await this.#designs()).readToCommit(...asked)
  }

  /** A design from which the caller is about to draw. */
  async readToDraw(...asked: Parameters<Designs['readToDraw']>) {
    return (await this.#designs()).readToDraw(...asked)
  }

  /** Works out a design and stores it. */
  async create(...asked: Parameters<Designs['create']>) {
    return (await this.#designs()).create(...asked)
  }

  /** The designs of a project, newest first. */
  async list(...asked: Parameters<Designs['list']>) {
    return (await this.#designs()).list(...asked)
  }

  /** Every revision of a design, oldest first. */
  async revisions(...asked: Parameters<Designs['revisions']>) {
    return (await this.#designs()).revisions(...asked)
  }

  /** Works out a design again, as its next revision. */
  async recalculate(...asked: Parameters<Designs['recalculate']>) {
    return (await this.#designs()).recalculate(...asked)
  }

  /** Submits a design, or records what its verifier decided. */
  async verify(...asked: Parameters<Designs['verify']>) {
    return (await this.#designs()).verify(...asked)
  }

  async #designs(): Promise<Designs> {
    return (await this.#records()).designs
  }
}

/** `Selections`, loaded with their first use. */
export class LazySelections implements Pick<Selections, keyof Selections> {
  readonly #records: () => Promise<Records>

  constructor(records: () => Promise<Records>) {
    this.#records = records
  }

  /** Removes the frames that a crashed server has written incompletely. */
  async sweep() {
    return (await this.#selections()).sweep()
  }

  /** The commitment that holds for a revision, and what was drawn from it. */
  async read(...asked: Parameters<Selections['read']>) {
    return (await this.#selections()).read(...asked)
  }

  /** The file by which a verifier showed how the sample of a revision was drawn. */
  async auditFile(...asked: Parameters<Selections['auditFile']>) {
    return (await this.#selections()).auditFile(...asked)
  }

  /** The ids that extend the drawn sample of a revision to new sizes. */
  async extend(...asked: Parameters<Selections['extend']>) {
    return (await this.#selections()).extend(...asked)
  }

  /** Stores a frame and the future round of a beacon. */
  async commit(...asked: Parameters<Selections['commit']>) {
    return (await this.#selections()).commit(...asked)
  }

  /** Draws the sample with the value of the committed round. */
  async reveal(...asked: Parameters<Selections['reveal']>) {
    return (await this.#selections()).reveal(...asked)
  }

  async #selections(): Promise<Selections> {
    return (await this.#records()).selections
  }
}
