import { giveWay } from '#core'
import type { FrameRow, SamplingDatabase } from '../tables.ts'
import type { Frame } from './frame.ts'

/** A commit is a sync of the disk: about a megabyte of ids goes into each, in so many parts. */
const partsInCommit = 16

/** A server that has not written a megabyte within this time has died. */
const abandonedAfterMs = 600_000

/** The frames in the database: their ids lie there part by part, so that a frame of any size fits. */
export class StoredFrames {
  readonly #db: SamplingDatabase
  readonly #now: () => number

  constructor(db: SamplingDatabase, now: () => number) {
    this.#db = db
    this.#now = now
  }

  /** The ids of a stratum, one part after the other. */
  async *ids(frameId: string, stratum: string): AsyncGenerator<string[]> {
    for (let part = 0; ; part++) {
      const row = await this.#db
        .selectFrom('sampling_frames')
        .select('ids')
        .where('frame_id', '=', frameId)
        .where('stratum', '=', stratum)
        .where('part', '=', part)
        .executeTakeFirst()
      if (!row) return
      yield row.ids.split('\n')
    }
  }

  /** Writes a frame a megabyte at a time; after each the time in its upload row says that this server is alive. */
  async write(frameId: string, frame: Frame): Promise<void> {
    const touched = () => new Date(this.#now()).toISOString()
    await this.#db
      .insertInto('sampling_uploads')
      .values({ frame_id: frameId, touched_at: touched() })
      .execute()
    let batch: FrameRow[] = []
    const store = async () => {
      await this.#db.insertInto('sampling_frames').values(batch).execute()
      batch = []
    }
    for (const part of frame.parts()) {
      await giveWay()
      if (batch.push({ frame_id: frameId, ...part }) < partsInCommit) continue
      await store()
      await this.#db
        .updateTable('sampling_uploads')
        .set({ touched_at: touched() })
        .where('frame_id', '=', frameId)
        .execute()
    }
    if (batch.length > 0) await store()
  }

  /** Removes a frame to which no commitment refers. */
  async remove(frameId: string): Promise<void> {
    await this.#db.deleteFrom('sampling_frames').where('frame_id', '=', frameId).execute()
    await this.#db.deleteFrom('sampling_uploads').where('frame_id', '=', frameId).execute()
  }

  /** Removes what a server that died has left of the frames that it was writing; answers how many. */
  async sweep(): Promise<number> {
    const abandoned = await this.#db
      .selectFrom('sampling_uploads')
      .select('frame_id')
      .where('touched_at', '<', new Date(this.#now() - abandonedAfterMs).toISOString())
      .execute()
    for (const { frame_id } of abandoned) await this.remove(frame_id)
    return abandoned.length
  }
}
