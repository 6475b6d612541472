import { useSyncExternalStore } from 'react'
import type { Store } from '../core/store.ts'

/** A store's snapshot; on the server, its first. */
export const useStore = <Snapshot>(store: Store<Snapshot>): Snapshot =>
  useSyncExternalStore(store.subscribe, store.getSnapshot, store.getServerSnapshot)
