import { Memories, type MemoriesSnapshot } from '../core/memories.ts'
import type { Overrides } from '../core/records.ts'
import { useClient } from './provider.ts'
import { useStore } from './use-store.ts'

/** What `useMemories` returns. */
export interface MemoriesResult
  extends
    MemoriesSnapshot,
    Pick<
      Memories,
      | 'setQuery'
      | 'add'
      | 'update'
      | 'remove'
      | 'removeAll'
      | 'exportAll'
      | 'setIncognito'
      | 'usedIn'
      | 'refetch'
    > {}

/** What an oracle remembers of the user, and how the user rules it. A change shows at once, and goes back where it is refused. */
export function useMemories(
  oracleDid: string,
  { overrides = {} }: { readonly overrides?: Overrides } = {},
): MemoriesResult {
  const client = useClient()
  const { baseUrl, wsUrl } = overrides
  const store = client.once(
    JSON.stringify(['memories', oracleDid, baseUrl, wsUrl]),
    () => new Memories(client, oracleDid, overrides),
  )
  const { setQuery, add, update, remove, removeAll, exportAll, setIncognito, usedIn, refetch } =
    store
  const calls = { setQuery, add, update, remove, removeAll, exportAll, setIncognito, usedIn }
  return { ...useStore(store), ...calls, refetch }
}
