import { useSyncExternalStore } from 'react'
import type { Store } from '../core/store.ts'

/** The snapshot of a store; on a server, the snapshot of an empty one. */
export const useStore = <Snapshot>(store: Store<Snapshot>): Snapshot =>
  useSyncExternalStore(store.subscribe, store.getSnapshot, store.getServerSnapshot)
