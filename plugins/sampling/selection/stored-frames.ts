import { giveWay } from '#core'
import type { FrameRow, SamplingDatabase } from '../tables.ts'
import type { Frame } from './frame.ts'

/** How many parts, about a megabyte of ids, one commit writes; every commit costs a sync of the disk. */
const partsInCommit = 16

/** A frame to which no server has written for this time is abandoned: the server that wrote it has crashed. */
const abandonedAfterMs = 600_000

/** The frames in the database. Each row holds a part of the ids, so that a frame of any size fits. */
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

  /** Writes a frame a megabyte at a time, and then each time updates its upload row, which shows that this server is alive. */
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

  /** Removes the frames that a crashed server has written incompletely; resolves to their number. */
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
