import { openDataDir } from '../../core/runtime/store/data-dir.ts'
import { openStore, type Store } from '../../core/runtime/store/store.ts'
import type { Where } from './each-database.ts'
import { silent } from './silent-log.ts'

/** The database of a server, opened beside it or after it. */
export const storeOf = async (folder: string, { databaseUrl }: Where): Promise<Store> =>
  openStore(
    databaseUrl === undefined
      ? { dataDir: await openDataDir(folder), log: silent }
      : { databaseUrl, log: silent },
  )
